#include "cli/inputs/run_tasks.hpp"

#include <fmt/format.h>

#include "base/file.hpp"
#include "cli/workers/launch.hpp"

namespace penstock::cli {

Facts facts_of(const std::string& command, const CheckedRun& checked, const ExecuteTask& task,
               const Survival& survival, const ExecuteOptions& options) {
  const Plan& plan = checked.plan;
  return {{"command", command},
          {"version", PENSTOCK_VERSION},
          {"schedule", plan.program.empty() ? plan.schedule : "program"},
          {"microbatches", std::to_string(plan.microbatches)},
          {"microbatch", std::to_string(plan.microbatch)},
          {"data parallel", std::to_string(plan.data_parallel)},
          {"tensor parallel", std::to_string(plan.tensor_parallel)},
          {"seed", std::to_string(plan.job.seed)},
          {"first step", std::to_string(task.first_step)},
          {"steps", std::to_string(task.steps)},
          {"forward only", task.forward_only ? "yes" : "no"},
          {"gradients dumped", task.dump_gradients.empty() ? "no" : "yes"},
          {"metrics", task.metrics ? "yes" : "no"},
          {"timeline", task.timeline ? "yes" : "no"},
          {"failures survived", !survival.survives ? "no"
                                : survival.peers   ? "yes, by peers"
                                                   : "yes"},
          {"spares", std::to_string(options.spares.value_or(0))},
          {"fewer ranks", options.shrink ? "planned for" : "not planned for"},
          {"weights", task.weights.empty() ? "the model's" : "given"},
          {"outputs", task.output.empty() ? "no" : "yes"},
          {"checkpoints",
           task.save.empty() ? "no" : fmt::format("every {}, {} kept", task.save_every, task.keep)},
          {"program of the schedule", task.program.empty() ? "none" : sha256(task.program)}};
}

std::vector<WorkerTask> run_tasks(const std::string& command, const ExecuteOptions& options,
                                  const CheckedRun& checked, const ExecuteTask& task,
                                  const std::optional<Launcher>& launcher,
                                  const Survival& survival) {
  const int64_t spares = options.spares.value_or(0);
  return with_options(
      make_tasks({.launcher = launcher,
                  .rank_of_process = with_spares(rank_of_process(checked.plan), spares),
                  .command = "execute",  // for a script, too
                  .arguments = to_json(task),
                  .facts = facts_of(command, checked, task, survival, options),
                  .start_timeout_s = options.start_timeout_s}),
      options.workers);
}

}  // namespace penstock::cli
