// The sum of a tensor over ranks of one machine, or a half of it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/communication/local/waiting.hpp"

namespace penstock {

/// Each rank sums one slice, over the ranks in ascending order, and takes the other slices from the
/// ranks that summed them: every element is the same sum on all ranks, whatever tensor it is part
/// of. A rank reads 2 (n - 1) / n of the tensor's bytes. It starts when made and is done, in
/// `tensor`, when waited for. Ranks (ascending, this one among them) that two sums have in common
/// start them in one order. A reduce-scatter ends with each rank's own slice, an all-gather takes
/// slices that have been summed.
class LocalSum : public Transfer {
 public:
  enum class Halves { both, reduce_scatter, all_gather };
  LocalSum(Halves halves, LocalRanks& local, LocalWaiting& waiting, int rank,
           const std::vector<int>& ranks, const at::Tensor& tensor);
  void wait() override;

 private:
  struct Slice {
    int64_t begin = 0, end = 0;  // elements
  };
  struct Member {
    LocalPeer* peer = nullptr;  // none for this rank
    int64_t tag = 0;            // of both ranks' offers of what they add; of sums the next
    uint64_t number = 0;        // of this rank's last offer to it
  };
  Slice slice_of(size_t member) const;
  int64_t bytes() const { return static_cast<int64_t>(flat_.nbytes()); }
  void offer(int64_t what);
  std::vector<uint64_t> await_offers(int64_t what);
  void sum_own_slice(const std::vector<uint64_t>& parts);
  void take_sums();
  void await_takers();

  const Halves halves_;
  LocalWaiting& waiting_;
  const at::Tensor flat_;
  std::vector<Member> members_;  // by place in ranks
  size_t own_ = 0;
};

}  // namespace penstock
