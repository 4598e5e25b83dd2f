// From a plan to the program that its ranks run.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/file.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/program/check.hpp"
#include "pipeline/program/schedule.hpp"

namespace penstock {

namespace {

/// Where the program comes from, for messages.
std::string source(const Plan& plan) {
  if (!plan.program.empty()) return plan.program;
  return fmt::format("{}: schedule {}", plan.path.empty() ? "plan" : plan.path, plan.schedule);
}

Program generated(const Plan& plan) {
  const Schedule& schedule = find_schedule(plan.schedule, source(plan));
  const int stages = static_cast<int>(plan.stages.size());
  const int ranks = plan.ranks();
  if (stages % ranks != 0) {
    throw InputError(source(plan), fmt::format("{} stages on {} ranks", stages, ranks),
                     "A schedule runs the same number of stages on each rank.");
  }
  return schedule.generate({.ranks = ranks,
                            .stages_per_rank = stages / ranks,
                            .microbatches = static_cast<int>(plan.microbatches)});
}

/// The program has the plan's stages, on the plan's ranks, and its microbatches.
void check_agrees(const Plan& plan, const Program& program) {
  const std::string place = source(plan);
  const auto stages = static_cast<int>(plan.stages.size());
  if (program.stage_count() != stages) {
    throw InputError(
        place, fmt::format("the program has {} stages, the plan {}", program.stage_count(), stages),
        "Use a program made for this number of stages.");
  }
  if (program.microbatches != plan.microbatches) {
    throw InputError(place,
                     fmt::format("the program has {} microbatches, the plan {}",
                                 program.microbatches, plan.microbatches),
                     fmt::format("Write `microbatches: {}`.", program.microbatches));
  }
  for (int stage = 0; stage < stages; ++stage) {
    const int rank = program.rank_of_stage[static_cast<size_t>(stage)];
    const int planned = plan.stages[static_cast<size_t>(stage)].rank;
    if (rank == planned) continue;
    throw InputError(
        place,
        fmt::format("stage {} runs on rank {}, the plan has it on rank {}", stage, rank, planned),
        fmt::format("Write `rank: {}` for stages[{}].", rank, stage));
  }
}

Program given_program(const Plan& plan) {
  Program program = plan.generated         ? *plan.generated
                    : plan.program.empty() ? generated(plan)
                                           : parse_csv(read_file(plan.program), plan.program);
  check_agrees(plan, program);
  return program;
}

/// Stages whose gradients are summed with other ranks: all with replicas or tensor groups, else
/// those that share a parameter with a stage of another rank.
std::vector<int> reduce_stages(const Plan& plan, const Slicing& slicing) {
  std::vector<int> stages;
  if (plan.data_parallel > 1 || plan.tensor_parallel > 1) {
    for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
      stages.push_back(static_cast<int>(stage));
    }
    return stages;
  }
  const auto rank_of = [&](int stage) { return plan.stages[static_cast<size_t>(stage)].rank; };
  for (const Slicing::Shared& shared : slicing.shared) {
    const bool across = std::ranges::any_of(
        shared.stages, [&](int stage) { return rank_of(stage) != rank_of(shared.stages.front()); });
    if (across) stages.insert(stages.end(), shared.stages.begin(), shared.stages.end());
  }
  return stages;
}

}  // namespace

std::vector<Flow> flows(const Slicing& slicing) {
  std::vector<Flow> result;
  for (const StageEdge& edge : slicing.edges) {
    const bool gradient = std::ranges::any_of(edge.values, &Crossing::carries_gradient);
    result.push_back({edge.producer, edge.consumer, gradient});
  }
  return result;
}

Program compute_program(const Plan& plan, const std::vector<Flow>& flows) {
  Program program = compute_only(given_program(plan));
  lower(program, flows, {.place = source(plan)});
  return program;
}

Program lowered_program(const Plan& plan, const Slicing& slicing) {
  Program program = given_program(plan);
  if (plan.job.forward_only) program = forward_only(program);
  LoweringOptions options{.place = source(plan)};
  if (!plan.job.forward_only) {
    options.reduce_stages = reduce_stages(plan, slicing);
    options.optimizer = true;
  }
  const std::vector<Flow> stage_flows = flows(slicing);
  program = is_lowered(program) ? add_updates(std::move(program), options)
                                : lower(program, stage_flows, options);
  check(program, stage_flows, options.place);
  return program;
}

Plan for_inference(Plan plan) {
  plan.job.forward_only = true;
  for (StagePlan& stage : plan.stages) stage.recompute = {};
  plan.shared_parameters.clear();
  plan.prediction.reset();
  return plan;
}

}  // namespace penstock
