// Keeps the copies of parameters equal: sums gradients over the ranks that hold them, and
// broadcasts the parameters that one rank updates for all.
#pragma once

#include <set>
#include <vector>

#include "backend/executor/update/broadcast.hpp"
#include "backend/executor/update/reduction.hpp"

namespace penstock {

/// Parameters without a gradient anywhere, outside of `trained`, take no part.
class GradientSync {
 public:
  /// `rank` is one of the run; `first_tag`: as `parameter_broadcasts` takes it; `trained`:
  /// indices in Graph::tensors.
  GradientSync(const Graph& graph, const Slicing& slicing, const Program& lowered, int replicas,
               int rank, int first_tag, const std::set<int>& trained);

  /// Sums the gradients: to the owners of shared parameters, then over the ranks of each group. All
  /// ranks call it at the same point of a step.
  void sum(TensorStore& store, Communicator& communicator) const;
  /// Broadcasts updated parameters from their owners; after the last OPT.
  void broadcast(TensorStore& store, Communicator& communicator) const;
  /// Does this rank update a parameter that it holds? Otherwise its owner broadcasts it.
  bool updates(int tensor) const { return !received_.contains(tensor); }

 private:
  std::vector<ReductionGroup> groups_;
  std::vector<ParameterBroadcast> broadcasts_;
  std::set<int> received_;  // tensors that another rank updates
};

}  // namespace penstock
