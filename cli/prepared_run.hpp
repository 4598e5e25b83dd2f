// A run of a plan that is checked as far as it can be before a worker starts, and what changes in
// it with another plan.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/command_line/commands.hpp"
#include "cli/inputs/execute_check.hpp"
#include "cli/inputs/survival.hpp"
#include "cli/predict/prediction.hpp"
#include "cli/predict/smaller_plan.hpp"
#include "cli/workers/epochs.hpp"
#include "launch/launcher.hpp"
#include "launch/worker_protocol.hpp"

namespace penstock::cli {

struct PreparedRun {
  ExecuteOptions options;  // its plan is the one of now
  CheckedRun checked;
  Program executed;  // as the workers do
  ExecuteTask task;
  std::optional<Predicted> predicted;
  std::string why_not_predicted;
  Survival survival;
  std::optional<PlannedFrom> planned_from;  // where it may be planned anew
  std::vector<std::string> notes;           // for people
  std::vector<WorkerTask> workers;
};

/// Throws InputError.
PreparedRun prepare_run(const ExecuteOptions& options, const std::optional<Launcher>& launcher);

/// A plan with which the run goes on on these of its processes, written beside its checkpoints.
/// Throws as smaller_plan.
SmallerPlan write_smaller_plan(const PreparedRun& run, const std::set<int>& alive,
                               const std::function<bool()>& stop);

/// Makes the run, and the task of a worker, those of a plan that was written so. Throws InputError.
void adopt(const std::string& plan, PreparedRun& run, WorkerTask& task);

}  // namespace penstock::cli
