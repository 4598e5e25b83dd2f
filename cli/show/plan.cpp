#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/quantity.hpp"
#include "cli/report/table.hpp"
#include "cli/show/show_text.hpp"
#include "graph/operators/flops.hpp"
#include "pipeline/plan/stage_names.hpp"

namespace penstock::cli {

namespace {

using Out = std::back_insert_iterator<std::string>;

/// Sizes of a stage's parameters.
struct Weights {
  int64_t elements = 0, bytes = 0;
};

Weights weights_of(const Graph& model, const StageSlice& slice) {
  Weights sum;
  for (const int index : slice.tensors) {
    const StoredTensor& tensor = model.tensors[static_cast<size_t>(index)];
    if (tensor.kind != StoredTensor::Kind::parameter) continue;
    sum.elements += tensor.elements();
    sum.bytes += tensor.bytes();
  }
  return sum;
}

double flops_of(const Plan& plan, const Graph& model, const StageSlice& slice) {
  double flops = 0;
  for (const OperatorId id : slice.operators)
    flops += forward_flops(model, model.operators[static_cast<size_t>(id)], plan.microbatch);
  return flops;
}

/// Times of a microbatch, what the stage holds throughout, and what each microbatch adds.
void add_costs(std::vector<std::string>& row, const StageCosts& costs, bool trained) {
  row.push_back(format_seconds(costs.forward_s));
  if (trained) row.push_back(format_seconds(costs.backward_s));
  row.push_back(format_bytes(costs.fixed_bytes));
  row.push_back(format_bytes(costs.saved_bytes));
}

void add_work(std::vector<std::string>& row, const Plan& plan, const Graph& model,
              const StageSlice& slice) {
  const Weights weights = weights_of(model, slice);
  row.push_back(std::to_string(slice.operators.size()));
  row.push_back(format_count(static_cast<double>(weights.elements)));
  row.push_back(format_bytes(weights.bytes));
  row.push_back(format_count(flops_of(plan, model, slice)));
}

void print_stages(Out out, const Plan& plan, const Graph& model, const Slicing& slicing,
                  const Costs* costs, ReportStyle style) {
  const auto names =
      stage_names(model, slicing.stage_of_operator, static_cast<int>(plan.stages.size()));
  std::vector<std::string> headings = {"stage", "rank", "<modules"};
  if (!plan.layers) headings.insert(headings.end(), {"operators", "parameters", "bytes", "FLOPs"});
  const bool trained = !plan.job.forward_only;
  if (costs) headings.emplace_back("forward");
  if (costs && trained) headings.emplace_back("backward");
  if (costs) headings.insert(headings.end(), {"held", "per microbatch"});
  Table table(headings);
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const StageSlice& slice = slicing.stages[stage];
    std::vector<std::string> row = {std::to_string(stage), std::to_string(plan.stages[stage].rank),
                                    names[stage] + recompute_note(plan.stages[stage].recompute)};
    if (!plan.layers) add_work(row, plan, model, slice);
    if (costs) add_costs(row, costs->stages.at(stage), trained);
    table.row(std::move(row));
  }
  const char* of_one = plan.layers ? "times" : costs ? "FLOPs and times" : "FLOPs, forward,";
  const std::string title = fmt::format("Stages; {} of one microbatch{}", of_one,
                                        costs ? "; memory held throughout and per microbatch" : "");
  fmt::format_to(out, "\n{}\n{}", wrapped(title, style.columns), table.text(style));
}

/// The module that computes the value, or its operator.
std::string home(const Graph& model, const Value& value) {
  const Operator& op = model.operators[static_cast<size_t>(value.producer)];
  return op.modules.empty() ? op.name : op.modules.back();
}

void print_cuts(Out out, const Plan& plan, const Graph& model, const Slicing& slicing,
                ReportStyle style) {
  if (slicing.edges.empty()) return;
  Table table({"<stages", "<value", "<of", "<is", "forward", "backward"});
  for (const StageEdge& edge : slicing.edges) {
    for (const Crossing& crossing : edge.values) {
      const Value& value = model.values[static_cast<size_t>(crossing.value)];
      const std::string size = format_bytes(value.bytes(plan.microbatch));
      table.row({fmt::format("{} to {}", edge.producer, edge.consumer), value.name,
                 home(model, value), value.type(), size, crossing.carries_gradient ? size : "-"});
    }
  }
  fmt::format_to(out, "\nWhat crosses between stages, per microbatch\n\n{}", table.text(style));
}

void print_shared(Out out, const Graph& model, const Slicing& slicing, ReportStyle style) {
  if (slicing.shared.empty()) return;
  const bool any = std::ranges::any_of(slicing.shared, &Slicing::Shared::transmitted);
  fmt::format_to(out, "\n{}",
                 wrapped(fmt::format("Parameters of several stages: replicated, their gradients "
                                     "summed{}",
                                     any ? ", or transmitted by the rank of the first" : ""),
                         style.columns));
  Table table({"<parameter", "bytes", "<stages"});
  for (const Slicing::Shared& shared : slicing.shared) {
    const StoredTensor& tensor = model.tensors[static_cast<size_t>(shared.tensor)];
    table.row({tensor.name, format_bytes(tensor.bytes()),
               fmt::format("{}{}", fmt::join(shared.stages, ", "),
                           shared.transmitted ? ", transmitted" : "")});
  }
  fmt::format_to(out, "\n{}", table.text(style));
}

void print_sums(Out out, const Plan& plan, ReportStyle style) {
  if (plan.data_parallel == 1 || plan.job.forward_only) return;
  fmt::format_to(
      out, "\n{}\n",
      wrapped("Replicas sum their gradients " + text_of(plan.all_reduce) + "." +
                  (plan.optimizer_state == OptimizerState::sharded
                       ? " Each has an equal part of the optimizer's state, updates that part of "
                         "the parameters, and gets the others' parts."
                       : ""),
              style.columns));
}

void print_prediction(Out out, const Plan& plan) {
  if (!plan.prediction) return;
  const Prediction& prediction = *plan.prediction;
  const std::string expected =
      prediction.expected_s > 0
          ? fmt::format(" ({} expected with noise)", format_seconds(prediction.expected_s))
          : "";
  fmt::format_to(out, "\nPredicted when planned: {} per step{}, bubble {:.1f} %\n",
                 format_seconds(prediction.step_s), expected, 100 * prediction.bubble);
}

}  // namespace

std::string layout_line(const Plan& plan) {
  return fmt::format(
      "{}{} on {}{}{}, {} of {}", plan.program.empty() ? plan.schedule : plan.program,
      plan.job.forward_only ? ", forwards alone," : "", format_number(plan.ranks(), "rank"),
      plan.data_parallel > 1 ? fmt::format(" x {}", format_number(plan.data_parallel, "replica"))
                             : "",
      plan.tensor_parallel > 1 ? fmt::format(" x {}", format_number(plan.tensor_parallel, "part"))
                               : "",
      format_number(plan.microbatches, "microbatch"), format_number(plan.microbatch, "sample"));
}

std::string text_of(const GradientSums& sums) {
  return fmt::format(
      "in buckets of {}, {}", format_bytes(sums.bucket_bytes),
      sums.overlap ? "beside the backwards that are left" : "at the end of the step");
}

std::string plan_text(const std::string& path, const Plan& plan, const Graph& model,
                      const Slicing& slicing, const Costs* costs, ReportStyle style) {
  std::string text = wrapped(path + ": " + layout_line(plan), style.columns);
  const Out out(text);
  print_stages(out, plan, model, slicing, costs, style);
  print_cuts(out, plan, model, slicing, style);
  print_shared(out, model, slicing, style);
  print_sums(out, plan, style);
  print_prediction(out, plan);
  return text;
}

}  // namespace penstock::cli
