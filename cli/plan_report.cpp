#include "cli/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/stage_names.hpp"
#include "cli/table.hpp"
#include "pipeline/quantity.hpp"

namespace penstock::cli {

namespace {

using Out = std::back_insert_iterator<std::string>;

/// Of one schedule and number of microbatches.
std::string best_step(const Planned& planned, const Searched& one) {
  if (one.best_s > 0) return format_seconds(one.best_s);
  const bool fits =
      planned.memory_limit_bytes == 0 || one.least_memory_bytes <= planned.memory_limit_bytes;
  return fits ? "-" : "too big";
}

void print_searched(Out out, const Planned& planned) {
  const Plan& plan = planned.plan;
  if (planned.manual)
    fmt::format_to(out, "searched   the split as given, on {} ranks", plan.ranks());
  else
    fmt::format_to(out, "searched   {} units on {} rank{}", planned.units, plan.ranks(),
                   plan.ranks() == 1 ? "" : "s");
  if (planned.memory_limit_bytes > 0)
    fmt::format_to(out, ", {} per rank ({})", format_bytes(planned.memory_limit_bytes),
                   planned.memory_source);
  Table table({"<", "<schedule", "microbatches", "samples", "splits", "simulated", "best found",
               "bound", "least memory"});
  for (const Searched& one : planned.searched) {
    const bool chosen = one.schedule == plan.schedule && one.microbatches == plan.microbatches;
    table.row({chosen ? "*" : " ", one.schedule, fmt::to_string(one.microbatches),
               fmt::to_string(one.microbatch), fmt::to_string(one.splits),
               fmt::to_string(one.simulated), best_step(planned, one),
               format_seconds(one.lower_bound_s), format_bytes(one.least_memory_bytes)});
  }
  fmt::format_to(out, "\n\n{}", table.text());
}

int64_t parameters(const Graph& model, const StageSlice& stage) {
  int64_t elements = 0;
  for (const int index : stage.tensors) {
    const StoredTensor& tensor = model.tensors[index];
    if (tensor.kind == StoredTensor::Kind::parameter) elements += tensor.elements();
  }
  return elements;
}

std::string memory(const Planned& planned, size_t rank) {
  const int64_t peak = planned.simulation.peak_memory_bytes[rank];
  if (planned.memory_limit_bytes == 0) return format_bytes(peak);
  const double share = static_cast<double>(peak) / static_cast<double>(planned.memory_limit_bytes);
  return fmt::format("{} ({:.0f} %)", format_bytes(peak), 100 * share);
}

/// One stage per rank, in order.
void print_stages(Out out, const Planned& planned, const Graph& model) {
  const size_t stages = planned.plan.stages.size();
  const std::vector<std::string> names =
      stage_names(model, planned.slicing.stage_of_operator, static_cast<int>(stages));
  Table table({"rank", "<modules", "parameters", "forward", "backward", "busy", "memory"});
  for (size_t stage = 0; stage < stages; ++stage) {
    const StageCosts& costs = planned.costs.stages[stage];
    const double busy = planned.simulation.busy_s[stage] / planned.simulation.makespan_s;
    const auto count = static_cast<double>(parameters(model, planned.slicing.stages[stage]));
    table.row({fmt::to_string(stage), names[stage], format_count(count),
               format_seconds(costs.forward_s), format_seconds(costs.backward_s),
               fmt::format("{:.0f} %", 100 * busy), memory(planned, stage)});
  }
  fmt::format_to(out, "\n{}", table.text());
  const auto& shared = planned.plan.shared_parameters;
  if (shared.empty()) return;
  fmt::format_to(out,
                 "\n  {} parameter{} of several stages (as {}): replicated, gradients summed\n",
                 shared.size(), shared.size() == 1 ? "" : "s", shared.begin()->first);
}

void print_result(Out out, const Planned& planned) {
  const Plan& plan = planned.plan;
  const Prediction& prediction = *plan.prediction;
  fmt::format_to(out, "\nstep       {} predicted, {:.4g} samples/s, bubble {:.1f} %\n",
                 format_seconds(prediction.step_s),
                 static_cast<double>(plan.job.global_batch) / prediction.step_s,
                 100 * prediction.bubble);
  fmt::format_to(out, "bound      {}: no plan searched can be faster; this one is {:.2f} % above\n",
                 format_seconds(planned.lower_bound_s), 100 * planned.gap());
  if (format_seconds(planned.split_bound_s) != format_seconds(planned.lower_bound_s))
    fmt::format_to(out, "           {} for this split, schedule and number of microbatches\n",
                   format_seconds(planned.split_bound_s));
}

}  // namespace

std::string plan_report(const Planned& planned, const Graph& model) {
  std::string text;
  const Out out(text);
  print_searched(out, planned);
  const Plan& plan = planned.plan;
  fmt::format_to(out, "\nplan       {}, {} microbatch{} of {} sample{}\n", plan.schedule,
                 plan.microbatches, plan.microbatches == 1 ? "" : "es", plan.microbatch,
                 plan.microbatch == 1 ? "" : "s");
  print_stages(out, planned, model);
  print_result(out, planned);
  return text;
}

}  // namespace penstock::cli
