// The tasks of the workers of a run, from what was checked of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/inputs/execute_check.hpp"
#include "cli/inputs/survival.hpp"
#include "launch/launcher.hpp"

namespace penstock::cli {

/// The tasks of the workers that this process starts: all ranks, or its own where a launcher starts
/// each. The ranks compare `command`, `execute` or `serve`, and how the run survives failures.
/// Throws InputError.
std::vector<WorkerTask> run_tasks(const std::string& command, const ExecuteOptions& options,
                                  const CheckedRun& checked, const ExecuteTask& task,
                                  const std::optional<Launcher>& launcher,
                                  const Survival& survival);

}  // namespace penstock::cli
