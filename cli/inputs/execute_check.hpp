// Everything about a run that can be checked without LibTorch, before a worker starts.
#pragma once

#include <string>

#include "cli/command_line/commands.hpp"
#include "launch/execute_task.hpp"
#include "pipeline/plan/plan.hpp"

namespace penstock::cli {

struct RunBegin;

/// The plan with all that follows from it, checked.
struct CheckedRun {
  Plan plan;
  Graph graph;      // the whole model's
  Graph part;       // what each rank runs of it (pipeline/plan/tensor_parallel.hpp)
  Slicing slicing;  // of that
  Program program;
  std::string renaming;  // how the names of the weights to start from differ from the model's
};

/// Reads the plan, its model and its data, and checks them and the flags. Throws InputError.
CheckedRun check_execute(const ExecuteOptions& options);

/// The task of the workers, which begins at `begin` (resumed.hpp); of no steps where the run has
/// done all. Throws InputError.
ExecuteTask execute_task(const ExecuteOptions& options, const CheckedRun& checked,
                         const RunBegin& begin);

}  // namespace penstock::cli
