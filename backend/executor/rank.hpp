// One rank of a run: its place, its device, its stages and their tensors. Every part of the
// executor works on one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/data/data.hpp"
#include "backend/device/device.hpp"
#include "backend/executor/update/optimizer_shards.hpp"
#include "backend/operators/tensor_group.hpp"
#include "backend/stage/captured_actions.hpp"
#include "backend/stage/recipe/store.hpp"
#include "backend/stage/stage.hpp"
#include "graph/analysis/mean_of_targets.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/plan/tensor_parallel.hpp"
#include "pipeline/program/program.hpp"

namespace penstock {

/// The parts of a loaded plan, which all ranks of a run share; they outlive the executor.
struct Model {
  const Plan& plan;
  const Graph& graph;
  const Analysis& analysis;
  const Slicing& slicing;
  const Program& program;                   // lowered
  const MatchedWeights* weights = nullptr;  // in place of those of the graph's file
  /// How a tensor group holds the tensors, of which `graph` is each part's.
  const GroupTensors* group = nullptr;

  sharding::Layout layout(int tensor) const {
    return group ? group->layouts[static_cast<size_t>(tensor)] : sharding::Layout::identical();
  }
  /// The model as it was exported.
  const Graph& whole() const { return group ? group->whole : graph; }
};

struct Rank {
  /// Its place is the one that the plan gives to the communicator's rank. Loads the rank's stages,
  /// whose tensors are those of `store` where that is given. Throws InputError. All references
  /// outlive it.
  Rank(const Model& model, const Data& data, Communicator& communicator, ComputeDevice& device,
       std::shared_ptr<TensorStore> store = nullptr);

  /// The rank's program.
  const std::vector<Action>& actions() const {
    return model.program.ranks[static_cast<size_t>(index)];
  }
  bool has_stage(int stage) const {
    return model.program.rank_of_stage[static_cast<size_t>(stage)] == index;
  }
  /// The first sample of a microbatch of this rank's replica.
  int64_t first_sample(int64_t step, int microbatch) const;
  /// Input `name` of a microbatch, on the device.
  at::Tensor read(const std::string& name, int64_t step, int microbatch) const;
  /// Clears the gradients of the step before.
  void begin_step();
  /// Ends the step of a stage, or of all, after the last backward; those that have ended are left
  /// alone.
  void finish_stage(int stage);
  void finish_stages();

  const Model model;
  const Data& data;
  Communicator& communicator;
  ComputeDevice& device;
  const int index, replica;  // of the pipeline
  const TensorGroup group;   // of one rank where operators are not split
  const bool training;       // the program has a backward
  const bool has_loss;       // in training, and where forwards alone evaluate the model
  /// The loss that the model computes as a mean over targets that count: its stages then compute
  /// the sum (`graph`), and microbatches are weighed by their counts.
  const std::optional<MeanLoss> mean_loss;
  const Graph graph;  // as the stages run it
  const std::shared_ptr<TensorStore> shared_store;
  TensorStore& store;                         // the same
  const std::set<int> trained;                // tensors of the whole model that the loss depends on
  const std::vector<GradientBucket> buckets;  // that this rank sums
  OptimizerShards shards;                     // of those
  CapturedActions captured;                   // of `stages`
  std::map<int, at::Tensor> captured_gradients;  // parameters' gradients, where replays leave them
  std::map<int, std::unique_ptr<Stage>> stages;

 private:
  std::set<int> finished_;  // stages, in this step
};

}  // namespace penstock
