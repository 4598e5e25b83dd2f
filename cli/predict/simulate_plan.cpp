// Studies of a plan: its program along the model's real data flow, its profile's costs.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "cli/inputs/costed_model.hpp"
#include "cli/inputs/plan_inputs.hpp"
#include "cli/inputs/survival.hpp"
#include "cli/predict/simulate_study.hpp"
#include "pipeline/job/parameters.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/plan/stage_names.hpp"
#include "pipeline/program/timeline.hpp"
#include "simulator/costs/measured_compute.hpp"

namespace penstock::cli {

namespace {

std::vector<PageFact> facts(const Plan& plan, const PlanInputs& inputs,
                            const Overrides& overrides) {
  std::vector<PageFact> facts = {{"schedule", plan.program.empty() ? plan.schedule : plan.program},
                                 {"replicas", std::to_string(plan.data_parallel)},
                                 {"microbatch", std::to_string(plan.microbatch)}};
  if (plan.tensor_parallel > 1)
    facts.push_back({"tensor parallel", std::to_string(plan.tensor_parallel)});
  if (!inputs.cluster.empty()) facts.push_back({"cluster", inputs.cluster});
  facts.push_back({"costs", inputs.costs_from});
  if (const std::string set = overrides.text(); !set.empty()) facts.push_back({"set", set});
  return facts;
}

/// Another cluster than the plan was made for: its devices and memory take the place of those that
/// the plan names.
void move_to(const std::string& cluster, Plan& plan) {
  plan.cluster = FileRef{.path = cluster, .sha256 = ""};
  plan.devices.clear();
  plan.memory_bytes = 0;
}

std::string title(const std::string& path, const SimulateOptions& options,
                  const Overrides& overrides) {
  std::string text = path;
  if (!options.cluster.empty()) text += " on " + options.cluster;
  if (const std::string set = overrides.text(); !set.empty()) text += " with " + set;
  return text;
}

[[noreturn]] void refuse_samples(const Plan& plan) {
  throw InputError(
      "--samples", fmt::format("{} does not say what times vary by", plan.profile->path),
      plan.layers ? "A table of layers never does: leave it out."
                  : "Profile the job again, without --quick or with a longer --budget, and plan "
                    "again: it has to repeat its measurements some times. An estimate has none.");
}

/// Refuses flags that would change the compute that was measured.
void check_measured(const SimulateOptions& options) {
  const bool speed = std::ranges::any_of(
      options.set, [](const std::string& text) { return text.starts_with("speed="); });
  if (!options.samples && !speed) return;
  throw InputError(speed ? "--set speed" : "--samples", "does not go with --measured",
                   "Leave one of them out.");
}

/// The parts of a tensor group wait for one another, so that one stands for all.
Timeline of_first_parts(Trace measured, const Plan& plan) {
  const auto parts = static_cast<int>(plan.tensor_parallel);
  std::erase_if(measured.timeline, [&](const auto& event) { return event.rank % parts != 0; });
  for (TimelineEvent& event : measured.timeline) event.rank /= parts;
  return std::move(measured.timeline);
}

}  // namespace

std::optional<SampledSteps> sampled(const Study& study, const SimulateOptions& options) {
  if (!options.samples) return std::nullopt;
  StepSampler sampler(study.program, study.costs, study.network, *study.noise, study.replicas);
  return sampled_steps(sampler, options.seed.value_or(0), *options.samples);
}

Study plan_study(Plan plan, const SimulateOptions& options) {
  const Overrides overrides(options.set);
  if (!options.measured.empty()) check_measured(options);
  overrides.apply(plan);
  if (!options.cluster.empty()) move_to(options.cluster, plan);
  if (options.forward_only) plan = for_inference(std::move(plan));
  if (plan.profile) count_snapshots(options.survive, profile_of(plan).device.kind, plan.job);
  const Graph model = rank_model_of(plan);
  const Slicing slicing = slice(plan, model, analyse(model));
  const CudaGraphs graphs = parse_cuda_graphs(options.cuda_graphs, "--cuda-graphs");
  PlanInputs inputs = plan_inputs(plan, model, slicing, graphs, overrides);
  if (!options.memory.empty())
    inputs.memory = {.max_bytes = parse_bytes(options.memory, "--memory")};
  if (needs_adaptive(plan)) plan.generated = adaptive_program(plan, slicing, inputs);
  Study study;
  study.title = title(plan.path, options, overrides);
  study.replicas = plan.data_parallel;
  study.parts = plan.tensor_parallel;
  if (plan.job.forward_only) study.samples = plan.job.global_batch;
  study.program = lowered_program(plan, slicing);
  study.costs = std::move(inputs.costs);
  if (!options.measured.empty()) {
    study.costs =
        with_measured_compute(std::move(study.costs), study.program, plan.data_parallel,
                              of_first_parts(read_trace(options.measured), plan), options.measured);
  }
  study.network = std::move(inputs.network);
  study.memory = std::move(inputs.memory);
  study.noise = std::move(inputs.noise);
  if (options.samples && !study.noise) refuse_samples(plan);
  study.facts = facts(plan, inputs, overrides);
  if (!options.measured.empty()) study.facts.push_back({"compute", "as in " + options.measured});
  study.modules = stage_names(model, slicing.stage_of_operator, study.program.stage_count());
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    study.modules[stage] += recompute_note(plan.stages[stage].recompute);
  return study;
}

}  // namespace penstock::cli
