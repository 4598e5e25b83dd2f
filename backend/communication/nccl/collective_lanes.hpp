// The lanes over which several ranks sum and gather: one for each set of ranks.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/communication/nccl/lane.hpp"

namespace penstock {

/// A kind of lanes: all that they have in common.
struct CollectiveKind {
  std::string name;       // `sum`: before the ranks in a lane's name
  bool computes = false;  // on the computing stream, in order with the operators there
  int max_ctas = 4;
  double deadline_s = 600;
};

class CollectiveLanes {
 public:
  /// `rank`: this one, of the run. All references outlive it.
  CollectiveLanes(NcclApi& api, SharedStore& store, EventPool& events, int rank,
                  CollectiveKind kind);

  /// The lane of `ranks`, made at its first use, which is in the same order on all of them. Throws
  /// PeerError.
  Lane& of(const std::vector<int>& ranks);
  bool has(const std::vector<int>& ranks) const { return lanes_.contains(ranks); }
  /// One of each kind of collective on the device's computing stream, since NCCL connects at the
  /// first. The event passes when they are done.
  EventPool::Event connect(const std::vector<int>& ranks, at::Device device);

  struct Enqueued {
    Lane& lane;
    EventPool::Event done;
  };
  /// In place, as Communicator says. The tensors are contiguous.
  Enqueued all_reduce(const at::Tensor& tensor, const std::vector<int>& ranks);
  Enqueued reduce_scatter(const at::Tensor& tensor, const std::vector<int>& ranks);
  Enqueued all_gather(const at::Tensor& tensor, const std::vector<int>& ranks);
  Enqueued all_to_all(const at::Tensor& sent, const at::Tensor& received,
                      const std::vector<int>& ranks);

  template <class Action>
  void for_each(Action action) {
    for (auto& [ranks, lane] : lanes_) action(lane);
  }

 private:
  using Call = std::function<NcclApi::Status(NcclApi::Comm, NcclApi::Stream)>;
  Enqueued enqueue(const char* what, const std::vector<int>& ranks, const Call& call);
  int place(const std::vector<int>& ranks) const;

  NcclApi& api_;
  SharedStore& store_;
  EventPool& events_;
  const int rank_;
  const CollectiveKind kind_;
  std::map<std::vector<int>, Lane> lanes_;
};

}  // namespace penstock
