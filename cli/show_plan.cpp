#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/quantity.hpp"
#include "cli/report/show_text.hpp"
#include "cli/report/table.hpp"
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
void add_costs(std::vector<std::string>& row, const StageCosts& costs) {
  row.push_back(format_seconds(costs.forward_s));
  row.push_back(format_seconds(costs.backward_s));
  row.push_back(format_bytes(costs.fixed_bytes));
  row.push_back(format_bytes(costs.saved_bytes));
}

void print_stages(Out out, const Plan& plan, const Graph& model, const Slicing& slicing,
                  const Costs* costs) {
  const auto names =
      stage_names(model, slicing.stage_of_operator, static_cast<int>(plan.stages.size()));
  std::vector<std::string> headings = {"stage",      "rank",  "<modules", "operators",
                                       "parameters", "bytes", "FLOPs"};
  if (costs) headings.insert(headings.end(), {"forward", "backward", "held", "per microbatch"});
  Table table(headings);
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const StageSlice& slice = slicing.stages[stage];
    const Weights weights = weights_of(model, slice);
    std::vector<std::string> row = {std::to_string(stage),
                                    std::to_string(plan.stages[stage].rank),
                                    names[stage] + recompute_note(plan.stages[stage].recompute),
                                    std::to_string(slice.operators.size()),
                                    format_count(static_cast<double>(weights.elements)),
                                    format_bytes(weights.bytes),
                                    format_count(flops_of(plan, model, slice))};
    if (costs) add_costs(row, costs->stages.at(stage));
    table.row(std::move(row));
  }
  fmt::format_to(out, "\nStages; FLOPs{} of one microbatch{}\n\n{}",
                 costs ? " and times" : ", forward,",
                 costs ? "; memory held throughout and per microbatch" : "", table.text());
}

/// The module that computes the value, or its operator.
std::string home(const Graph& model, const Value& value) {
  const Operator& op = model.operators[static_cast<size_t>(value.producer)];
  return op.modules.empty() ? op.name : op.modules.back();
}

void print_cuts(Out out, const Plan& plan, const Graph& model, const Slicing& slicing) {
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
  fmt::format_to(out, "\nWhat crosses between stages, per microbatch\n\n{}", table.text());
}

void print_shared(Out out, const Graph& model, const Slicing& slicing) {
  if (slicing.shared.empty()) return;
  const bool any = std::ranges::any_of(slicing.shared, &Slicing::Shared::transmitted);
  fmt::format_to(out, "\nParameters of several stages: {}\n\n",
                 any ? "replicated, their gradients summed, or transmitted by the rank of the first"
                     : "replicated, their gradients summed");
  for (const Slicing::Shared& shared : slicing.shared) {
    std::string stages;
    for (const int stage : shared.stages) {
      stages += fmt::format("{}{}", stages.empty() ? "" : ", ", stage);
    }
    const StoredTensor& tensor = model.tensors[static_cast<size_t>(shared.tensor)];
    fmt::format_to(out, "  {}  {}, stages {}{}\n", tensor.name, format_bytes(tensor.bytes()),
                   stages, shared.transmitted ? ", transmitted" : "");
  }
}

void print_prediction(Out out, const Plan& plan) {
  if (!plan.prediction) return;
  fmt::format_to(out, "\nPredicted when planned: {} per step, bubble {:.1f} %\n",
                 format_seconds(plan.prediction->step_s), 100 * plan.prediction->bubble);
}

void print_layout(Out out, const std::string& path, const Plan& plan) {
  fmt::format_to(out, "{}: {} on {} rank{}, {} microbatch{} of {} sample{}\n", path,
                 plan.program.empty() ? plan.schedule : plan.program, plan.ranks(),
                 plan.ranks() == 1 ? "" : "s", plan.microbatches,
                 plan.microbatches == 1 ? "" : "es", plan.microbatch,
                 plan.microbatch == 1 ? "" : "s");
  if (plan.data_parallel > 1) fmt::format_to(out, "{} replicas\n", plan.data_parallel);
}

}  // namespace

std::string plan_text(const std::string& path, const Plan& plan, const Graph& model,
                      const Slicing& slicing, const Costs* costs) {
  std::string text;
  const Out out(text);
  print_layout(out, path, plan);
  print_stages(out, plan, model, slicing, costs);
  print_cuts(out, plan, model, slicing);
  print_shared(out, model, slicing);
  print_prediction(out, plan);
  return text;
}

}  // namespace penstock::cli
