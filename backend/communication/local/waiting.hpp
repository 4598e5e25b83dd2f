// How a rank waits for those of its machine.
#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/communication/local/peers.hpp"
#include "backend/communication/spare_time.hpp"

namespace penstock {

inline Offer offer_of(const at::Tensor& contiguous, int64_t tag) {
  return {reinterpret_cast<uint64_t>(contiguous.data_ptr()),
          static_cast<int64_t>(contiguous.nbytes()), tag};
}

/// Waits awake for a moment, since to wake a sleeping thread takes longer than most messages, then
/// asleep until a peer has a word for this rank. None stays awake where ranks share cores, or where
/// another thread has work for its core.
class LocalWaiting {
 public:
  LocalWaiting(LocalRanks& local, const SpareTime* spare) : local_(local), spare_(spare) {}

  /// Returns once `ready()`, which looks at what `peer` shares. Throws PeerError if that is gone.
  template <typename Ready>
  void until(LocalPeer& peer, const Ready& ready) {
    if (awake(ready)) return;
    while (!asleep(peer, ready)) {
      for (auto& [rank, other] : local_.peers) other->hear();
      if (!peer.gone()) continue;
      if (ready()) return;  // its last deed
      throw PeerError(peer.rank(), "lost rank " + std::to_string(peer.rank()));
    }
  }

  /// The number of the peer's offer with that tag, which is of so many bytes, once it is made.
  /// Throws PeerError.
  uint64_t await_offer(LocalPeer& peer, int64_t tag, int64_t bytes) {
    std::optional<uint64_t> number;
    until(peer, [&] { return (number = peer.find(tag, bytes)).has_value(); });
    return *number;
  }

 private:
  static constexpr std::chrono::microseconds moment{10000};

  /// Tells the processor that this is a loop that waits.
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  bool may_stay_awake() const {
    return !local_.share_cores && (spare_ == nullptr || !spare_->is_wanted());
  }

  template <typename Ready>
  bool awake(const Ready& ready) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + moment;
    do {
      catch_up();
      if (ready()) return true;
      for (int i = 0; i < 16; ++i) pause();
    } while (may_stay_awake() && Clock::now() < end);
    return false;
  }

  /// Sleeps until there is a word, unless it is ready by then, which is returned, or the peer is
  /// known to be gone.
  template <typename Ready>
  bool asleep(const LocalPeer& peer, const Ready& ready) {
    for (auto& [rank, other] : local_.peers) other->fall_asleep();
    catch_up();
    const bool done = ready();
    if (!done && !peer.gone()) await_word();
    for (auto& [rank, other] : local_.peers) other->wake();
    return done;
  }

  void catch_up() {
    for (auto& [rank, other] : local_.peers) other->catch_up();
  }

  void await_word() {
    std::vector<pollfd> sockets;
    for (auto& [rank, other] : local_.peers) {
      if (!other->gone()) sockets.push_back({other->socket(), POLLIN, 0});
    }
    poll(sockets.data(), sockets.size(), -1);
  }

  LocalRanks& local_;
  const SpareTime* spare_;
};

}  // namespace penstock
