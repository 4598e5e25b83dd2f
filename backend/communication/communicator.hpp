// Moves tensors between ranks: one interface over threads of one process,
// memory of one machine, Gloo, and NCCL.
#pragma once

#include <ATen/ATen.h>

#include <compare>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace penstock {

/// Another rank is gone, or a transfer with it failed: rarely the root cause of a failed run.
class PeerError : public std::runtime_error {
 public:
  PeerError(int lost, const std::string& message) : std::runtime_error(message), peer(lost) {}
  int peer = 0;
};

/// A transfer in flight. It keeps its tensor alive, and must be waited for before it is destroyed.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Blocks until it is done, without a timeout; on a GPU it blocks the work that this thread
  /// enqueues from then on, not the thread. Throws PeerError if the peer is gone.
  virtual void wait() = 0;
};

/// A one-way channel to or from another rank; activations and gradients never wait for each other.
struct PeerChannel {
  int peer = 0;  // the other rank
  bool gradients = false;
  auto operator<=>(const PeerChannel&) const = default;  // NOLINT(modernize-use-nullptr)
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  std::vector<int> all_ranks() const;
  /// Does not block. The tensor is contiguous and unchanged until waited for. `tag` is unique among
  /// the transfers of a step between the two ranks.
  virtual std::unique_ptr<Transfer> send(PeerChannel channel, const at::Tensor& tensor,
                                         int tag) = 0;
  virtual std::unique_ptr<Transfer> receive(PeerChannel channel, at::Tensor& tensor, int tag) = 0;
  /// Begins to sum in place over `ranks` (two at least, ascending, this rank among them), which all
  /// begin their sums in one order. Does not block; the tensor is contiguous, and nobody touches it
  /// until the sum has been waited for. All ranks get the same bits.
  virtual std::unique_ptr<Transfer> start_all_reduce(const at::Tensor& tensor,
                                                     const std::vector<int>& ranks) = 0;
  /// Sums and waits for it, perhaps in another way; nothing for one rank.
  virtual void all_reduce(const at::Tensor& tensor, const std::vector<int>& ranks) {
    if (ranks.size() > 1) start_all_reduce(tensor, ranks)->wait();
  }
  /// So do the next two.
  virtual void reduce_scatter(const at::Tensor& tensor, const std::vector<int>& ranks) {
    if (ranks.size() > 1) start_reduce_scatter(tensor, ranks)->wait();
  }
  virtual void all_gather(const at::Tensor& tensor, const std::vector<int>& ranks) {
    if (ranks.size() > 1) start_all_gather(tensor, ranks)->wait();
  }
  /// Both are contiguous, and of as many equal parts as there are ranks: part i of `sent` goes to
  /// the i-th rank, and part i of `received` comes from it. Waits for it.
  virtual void all_to_all(const at::Tensor& sent, const at::Tensor& received,
                          const std::vector<int>& ranks);
  /// The first half of that: the tensor is of as many equal parts as there are ranks, and of each
  /// rank the part of its place among them becomes the sum, with an all-reduce's bits where the
  /// transport adds in one order; the other parts are of no use from then on.
  virtual std::unique_ptr<Transfer> start_reduce_scatter(const at::Tensor& tensor,
                                                         const std::vector<int>& ranks) {
    return start_all_reduce(tensor, ranks);
  }
  /// The second half: each rank's part, which nobody changes until it has been waited for, replaces
  /// the others' copies of it. Begun in one order with the sums.
  virtual std::unique_ptr<Transfer> start_all_gather(const at::Tensor& tensor,
                                                     const std::vector<int>& ranks) = 0;
  /// Connects `ranks` for sums, so that the first one need not. They all call it in one order.
  virtual void connect_sums(const std::vector<int>& ranks) = 0;
  /// Connects a tensor group, whose ranks call it in one order. What waits, above, then never waits
  /// for a sum that goes on beside.
  virtual void connect_group(const std::vector<int>& ranks) { connect_sums(ranks); }
  /// Returns when all ranks have called it.
  virtual void barrier();
  /// Returns when everything that this rank has enqueued has run. On a CPU nothing is enqueued.
  virtual void synchronise() {}
  /// Does the rank that waits for a message from `peer` copy it, then? Else it moves by itself.
  virtual bool receiver_copies(int /*peer*/) const { return false; }
  /// Does a posted receive keep the device busy until its message comes?
  virtual bool receives_spin() const { return false; }
};

/// `size` communicators for threads of this process. Destroying one is what a peer sees as gone.
std::vector<std::unique_ptr<Communicator>> make_in_process(int size);

}  // namespace penstock
