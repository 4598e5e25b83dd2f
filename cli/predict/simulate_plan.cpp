// Studies of a plan: its program along the model's real data flow, its profile's costs.
#include "base/quantity.hpp"
#include "cli/inputs/plan_inputs.hpp"
#include "cli/predict/simulate_study.hpp"
#include "pipeline/job/parameters.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/plan/stage_names.hpp"

namespace penstock::cli {

namespace {

std::vector<PageFact> facts(const Plan& plan, const PlanInputs& inputs) {
  std::vector<PageFact> facts = {{"schedule", plan.program.empty() ? plan.schedule : plan.program},
                                 {"replicas", std::to_string(plan.data_parallel)},
                                 {"microbatch", std::to_string(plan.microbatch)}};
  if (!inputs.cluster.empty()) facts.push_back({"cluster", inputs.cluster});
  facts.push_back({"costs", inputs.costs_from});
  return facts;
}

}  // namespace

Study plan_study(Plan plan, const SimulateOptions& options) {
  const Graph model = read_model(plan.job);
  check_fingerprint(plan, model);
  const Slicing slicing = slice(plan, model, analyse(model));
  const CudaGraphs graphs = parse_cuda_graphs(options.cuda_graphs, "--cuda-graphs");
  PlanInputs inputs = plan_inputs(plan, model, slicing, graphs);
  if (!options.memory.empty())
    inputs.memory = {.max_bytes = parse_bytes(options.memory, "--memory")};
  if (needs_adaptive(plan)) plan.generated = adaptive_program(plan, slicing, inputs);
  Study study;
  study.title = plan.path;
  study.program = lowered_program(plan, slicing);
  study.costs = std::move(inputs.costs);
  study.network = std::move(inputs.network);
  study.memory = std::move(inputs.memory);
  study.facts = facts(plan, inputs);
  study.modules = stage_names(model, slicing.stage_of_operator, study.program.stage_count());
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    study.modules[stage] += recompute_note(plan.stages[stage].recompute);
  return study;
}

}  // namespace penstock::cli
