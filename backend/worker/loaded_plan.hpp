// A plan as a worker needs it: with its model, its slicing and its lowered program.
#pragma once

#include <memory>
#include <string>

#include "launch/execute_task.hpp"
#include "pipeline/plan/plan.hpp"

namespace penstock {

struct LoadedPlan {
  Plan plan;
  Graph graph;
  Analysis analysis;
  Slicing slicing;
  Program program;
};

/// Reads and checks the plan, which `penstock` has checked before. Throws InputError, also where it
/// has changed since.
std::unique_ptr<LoadedPlan> load_plan(const ExecuteTask& task);

}  // namespace penstock
