// The tasks of the workers of a run, from what was checked of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/inputs/execute_check.hpp"
#include "cli/inputs/survival.hpp"
#include "launch/launcher.hpp"

namespace penstock::cli {

/// Facts that the ranks compare when they meet: the plan's main figures, so that a message tells
/// them, and the fingerprints, which tell all the rest.
Facts facts_of(const std::string& command, const CheckedRun& checked, const ExecuteTask& task,
               const Survival& survival, const ExecuteOptions& options);

/// The tasks of the workers that this process starts: all ranks, or its own where a launcher starts
/// each. The ranks compare `command`, `execute` or `serve`, and how the run survives failures.
/// Throws InputError.
std::vector<WorkerTask> run_tasks(const std::string& command, const ExecuteOptions& options,
                                  const CheckedRun& checked, const ExecuteTask& task,
                                  const std::optional<Launcher>& launcher,
                                  const Survival& survival);

}  // namespace penstock::cli
