// Keeps the copies of parameters equal: sums gradients over the ranks that hold them, and
// broadcasts the parameters that one rank updates for all.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "backend/executor/update/broadcast.hpp"
#include "backend/executor/update/optimizer_shards.hpp"
#include "backend/executor/update/reduction.hpp"
#include "pipeline/program/program.hpp"

namespace penstock {

/// Parameters without a gradient anywhere, outside of `trained`, take no part.
class GradientSync {
 public:
  /// `buckets`: the rank's; `lowered`: the plan's; `first_tag`: as `parameter_broadcasts` takes it;
  /// `trained`: indices in Graph::tensors, empty where the run does not train. References to store,
  /// shards and communicator outlive it.
  GradientSync(const Plan& plan, const Slicing& slicing, const Program& lowered, int first_tag,
               const std::set<int>& trained, const std::vector<GradientBucket>& buckets,
               TensorStore& store, OptimizerShards& shards, Communicator& communicator);

  /// Sums over the ranks of one kind begin beside the backwards.
  Reduction& reduction() { return reduction_; }
  /// Sums the gradients: begins what has not begun, adds those of shared parameters up at their
  /// owners, and waits for all. All ranks call it at the same point of a step.
  void sum();
  /// Gathers the parameters that ranks have updated in parts, and broadcasts those that one has
  /// updated for others; after the last OPT.
  void publish();
  /// Does this rank update a parameter that it holds? Otherwise its owner broadcasts it.
  bool updates(int tensor) const { return !received_.contains(tensor); }

 private:
  TensorStore& store_;
  OptimizerShards& shards_;
  Communicator& communicator_;
  Reduction reduction_;
  std::vector<ParameterBroadcast> broadcasts_;
  std::set<int> received_;  // tensors that another rank updates
};

}  // namespace penstock
