// The ranks of this machine whose memory this rank can read, and the words that wake them.
#pragma once

#include <sys/types.h>

#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "backend/communication/local/offers.hpp"
#include "backend/communication/local/unix_socket.hpp"
#include "backend/communication/rendezvous.hpp"

namespace penstock {

/// Another rank of this machine. The socket tells that it is gone, however it ended.
class LocalPeer {
 public:
  LocalPeer(int rank, int side, pid_t process, Descriptor socket, SharedPage* page)
      : rank_(rank), side_(side), process_(process), socket_(std::move(socket)), page_(page) {}
  LocalPeer(const LocalPeer&) = delete;
  LocalPeer& operator=(const LocalPeer&) = delete;
  ~LocalPeer();

  int rank() const { return rank_; }
  int socket() const { return socket_.get(); }

  /// Offers bytes of this process, at once or as soon as there is a place; returns their number.
  uint64_t offer(const Offer& offer);
  /// Makes the offers that found no place; true where none is left.
  bool catch_up();
  bool taken(uint64_t number) const { return own().taken(number); }

  /// The number of the peer's offer with that tag, if it has been made. Throws std::logic_error if
  /// it is not of so many bytes.
  std::optional<uint64_t> find(int64_t tag, int64_t bytes);
  /// Copies `bytes` of an offer that was found, from its byte `from` on. Throws PeerError.
  void read(uint64_t number, int64_t from, void* to, int64_t bytes) const;
  /// The peer may change those bytes from now on.
  void take(uint64_t number);

  /// The tag of the next sum of both ranks, below those of messages; a sum has two.
  int64_t next_sum_tag() { return -2 * ++sums_; }

  /// From now on, until `wake`, whatever the peer offers or takes makes the socket readable.
  void fall_asleep() { page_->sleeping[static_cast<size_t>(side_)].store(1); }
  void wake() { page_->sleeping[static_cast<size_t>(side_)].store(0); }
  /// Reads the words of the socket, and notices that the peer is gone.
  void hear();
  bool gone() const { return gone_; }

 private:
  OfferRing& own() const { return page_->offers[static_cast<size_t>(side_)]; }
  OfferRing& others() const { return page_->offers[static_cast<size_t>(1 - side_)]; }
  void call();

  int rank_, side_;
  pid_t process_;
  Descriptor socket_;
  SharedPage* page_;
  uint64_t offered_ = 0, seen_ = 0;     // numbers of the next offers, own and the peer's
  std::deque<Offer> without_place_;     // the last of those offered
  std::map<int64_t, uint64_t> by_tag_;  // the peer's that are not taken
  int64_t sums_ = 0;
  bool gone_ = false;
};

/// The ranks of this machine, this one apart.
struct LocalRanks {
  std::map<int, std::unique_ptr<LocalPeer>> peers;  // by rank
  bool share_cores = false;                         // there are more of them than cores
};

/// Connects this rank with those of its machine; all ranks of a run call it, pinned to their cores.
/// Ranks are of one machine where they have one kernel, user and network namespace, and each can
/// read the memory of all others, which a container may forbid; else there are no peers, on none of
/// them. Throws PeerError.
LocalRanks find_local_ranks(const Seat& seat);

}  // namespace penstock
