// A plan as a worker needs it: with its model, its slicing and its lowered program.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "launch/execute_task.hpp"
#include "launch/worker_protocol.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/plan/tensor_parallel.hpp"
#include "pipeline/weights/match.hpp"

namespace penstock {

struct LoadedPlan {
  Plan plan;
  Graph graph;                        // as a rank runs it: of a tensor group, each part's
  std::optional<GroupTensors> group;  // where the plan has tensor groups
  Analysis analysis;
  Slicing slicing;
  Program program;
  std::unique_ptr<const StateFiles> state_files;  // of the weights to start from, where given
  std::optional<MatchedWeights> weights;

  /// The model as it was exported.
  const Graph& whole() const { return group ? group->whole : graph; }
};

/// Reads and checks the plan, which `penstock` has checked before. Throws InputError, also where it
/// has changed since.
std::unique_ptr<LoadedPlan> load_plan(const ExecuteTask& task);

/// The facts that all ranks must agree on.
Facts facts_of(const ExecuteTask& task, const LoadedPlan& loaded);

}  // namespace penstock
