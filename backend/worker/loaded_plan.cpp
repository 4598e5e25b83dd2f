#include "backend/worker/loaded_plan.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "pipeline/job/parameters.hpp"

namespace penstock {

std::unique_ptr<LoadedPlan> load_plan(const ExecuteTask& task) {
  if (const std::string found = sha256_of_file(task.plan); found != task.plan_sha256) {
    throw InputError(
        task.plan,
        "was changed while the run started (sha256 " + found + ", not " + task.plan_sha256 + ")",
        "Start it again.");
  }
  auto loaded = std::make_unique<LoadedPlan>();
  loaded->plan = read_plan(task.plan);
  if (task.forward_only) loaded->plan = for_inference(std::move(loaded->plan));
  if (!task.program.empty()) loaded->plan.generated = parse_csv(task.program, task.plan);
  Graph model = read_model(loaded->plan.job);
  check_fingerprint(loaded->plan, model);
  if (!task.weights.empty()) {
    loaded->state_files = std::make_unique<const StateFiles>(task.weights);
    loaded->weights = match_weights(*loaded->state_files, model);
  }
  PlannedModel planned = planned_model(loaded->plan, std::move(model));
  loaded->graph = std::move(planned.graph);
  loaded->group = std::move(planned.group);
  loaded->analysis = analyse(loaded->graph);
  loaded->slicing = slice(loaded->plan, loaded->graph, loaded->analysis);
  loaded->program = delay_receives(lowered_program(loaded->plan, loaded->slicing));
  return loaded;
}

Facts facts_of(const ExecuteTask& task, const LoadedPlan& loaded) {
  return {{"plan sha256", task.plan_sha256}, {"model sha256", loaded.graph.sha256}};
}

}  // namespace penstock
