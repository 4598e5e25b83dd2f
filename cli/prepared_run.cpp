#include "cli/prepared_run.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/quantity.hpp"
#include "cli/inputs/resumed.hpp"
#include "cli/inputs/run_tasks.hpp"
#include "cli/show/show_text.hpp"
#include "pipeline/program/program.hpp"

namespace penstock::cli {

namespace {

void predict_run(PreparedRun& run) {
  run.predicted = predict(run.checked.plan, run.checked.part, run.checked.slicing,
                          run.checked.program, run.task.cuda_graphs, run.why_not_predicted);
}

/// Throws where a run that is to shrink could not be planned anew, or its plan not be predicted.
std::optional<PlannedFrom> files_to_plan_from(const PreparedRun& run) {
  if (!run.options.shrink) return {};
  PlannedFrom from =
      planned_from(run.checked.plan, run.options.survive, run.options.spares.value_or(0));
  if (run.predicted) return from;
  throw InputError("--shrink", "the run could not be planned anew: " + run.why_not_predicted,
                   "Plan again from a profile, or leave it out.");
}

}  // namespace

PreparedRun prepare_run(const ExecuteOptions& options, const std::optional<Launcher>& launcher) {
  PreparedRun run{.options = options, .checked = check_execute(options)};
  const RunBegin begin = find_begin(options, run.checked);
  run.notes = begin.notes;
  if (!run.checked.renaming.empty())
    run.notes.push_back(fmt::format("{}: {}", options.weights, run.checked.renaming));
  run.executed = delay_receives(run.checked.program);
  run.task = execute_task(options, run.checked, begin);
  if (run.task.steps > 0) {
    predict_run(run);
    run.survival =
        find_survival(options, launcher, run.checked, !run.task.save.empty(),
                      run.predicted ? run.predicted->peak_memory_bytes : std::vector<int64_t>());
    if (!run.survival.why_not.empty()) run.notes.push_back(run.survival.why_not);
    run.planned_from = files_to_plan_from(run);
  }
  run.workers = run_tasks("execute", options, run.checked, run.task, launcher, run.survival);
  return run;
}

SmallerPlan write_smaller_plan(const PreparedRun& run, const std::set<int>& alive,
                               const std::function<bool()>& stop) {
  const Plan& before = run.checked.plan;
  const Plan plan = smaller_plan(before, alive, *run.planned_from, run.checked.graph, stop);
  const auto file =
      std::filesystem::path(run.task.save) / fmt::format("plan-{}-ranks.yaml", plan.all_ranks());
  write_file(file, to_yaml(plan, file));
  return {file.string(), assign_on_devices(plan, alive, *run.planned_from),
          fmt::format("It was planned anew, as {}:\n"
                      "  before: {}, {} a step predicted\n"
                      "  now:    {}, {} a step predicted\n"
                      "  Losses are the same up to rounding.",
                      file.string(), layout_line(before), format_seconds(run.predicted->step_s),
                      layout_line(plan), format_seconds(plan.prediction->step_s))};
}

void adopt(const std::string& plan, PreparedRun& run, WorkerTask& task) {
  run.options.plan = plan;
  run.checked = check_execute(run.options);
  run.executed = delay_receives(run.checked.program);
  run.task.plan = plan;
  run.task.plan_sha256 = sha256_of_file(plan);
  run.task.program = run.checked.plan.generated ? to_csv(*run.checked.plan.generated) : "";
  predict_run(run);
  for (const char* key : {"plan", "plan_sha256", "program"})
    task.arguments[key] = to_json(run.task).at(key);
  task.facts = facts_of("execute", run.checked, run.task, run.survival, run.options);
  task.world_size = run.checked.plan.all_ranks();
}

}  // namespace penstock::cli
