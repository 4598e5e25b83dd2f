#include "cli/report/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/quantity.hpp"
#include "cli/report/search_report.hpp"
#include "cli/report/table.hpp"
#include "pipeline/plan/sharing.hpp"
#include "pipeline/plan/stage_names.hpp"

namespace penstock::cli {

namespace {

using Out = std::back_insert_iterator<std::string>;

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
  if (!planned.memory.any()) return format_bytes(peak);
  const auto limit = static_cast<double>(planned.memory.of(static_cast<int>(rank)));
  const double share = static_cast<double>(peak) / limit;
  return fmt::format("{} ({:.0f} %)", format_bytes(peak), 100 * share);
}

/// `A100 SXM 0.4 0.5, H100 SXM 1.0`: of all replicas and parts of a rank, as node.device.
std::string devices_of_rank(const Cluster& cluster, const Plan& plan, int rank) {
  std::string text, last;
  for (int of_run = 0; of_run < plan.all_ranks(); ++of_run) {
    if (plan.place_of(of_run).rank != rank) continue;
    const Cluster::Place place = cluster.place(of_run);
    const std::string kind = place.kind->device.empty() ? "device" : place.kind->device;
    const std::string at = fmt::format("{}.{}", place.node, place.device);
    if (kind == last) {
      text += " " + at;
    } else {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kind, at);
    }
    last = kind;
  }
  return text;
}

/// The devices of a plan that does not take the cluster's as listed.
void print_devices(Out out, const Planned& planned, ReportStyle style) {
  const Plan& plan = planned.plan;
  if (plan.devices.empty()) return;
  Table table({"rank", "<devices of its replicas (node.device)"});
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    table.row({fmt::to_string(rank), devices_of_rank(*planned.cluster, plan, rank)});
  }
  fmt::format_to(out, "\n{}", table.text(style));
}

/// The shared parameters that are updated in one way; nothing where there are none.
void print_shared_parameters(Out out, const Plan& plan, std::string_view way, const char* meaning) {
  int64_t count = 0;
  std::string first;
  for (const auto& [name, own] : plan.shared_parameters) {
    if (own != way) continue;
    if (count++ == 0) first = name;
  }
  if (count == 0) return;
  fmt::format_to(out, "\n  {} of several stages (as {}): {}\n", format_number(count, "parameter"),
                 first, meaning);
}

void print_shared_parameters(Out out, const Plan& plan) {
  print_shared_parameters(out, plan, way_replicate, "replicated, gradients summed");
  print_shared_parameters(out, plan, way_transmit,
                          "transmitted by the rank of the first, which alone updates it");
}

void print_stages(Out out, const Planned& planned, const Graph& model, ReportStyle style) {
  const size_t stages = planned.plan.stages.size();
  const std::vector<std::string> names =
      stage_names(model, planned.slicing.stage_of_operator, static_cast<int>(stages));
  const bool trained = !planned.plan.job.forward_only;
  std::vector<std::string> headings{"stage", "rank", "<modules", "forward"};
  if (trained) headings.emplace_back("backward");
  headings.insert(headings.end(), {"busy", "memory"});
  const bool counted = style.verbose && !planned.plan.layers;
  if (counted) headings.emplace_back("parameters");
  Table table(std::move(headings));
  for (size_t stage = 0; stage < stages; ++stage) {
    const StageCosts& costs = planned.costs.stages[stage];
    const StagePlan& plan = planned.plan.stages[stage];
    const auto rank = static_cast<size_t>(plan.rank);
    const double busy = planned.simulation.busy_s[rank] / planned.simulation.makespan_s;
    std::vector<std::string> cells{fmt::to_string(stage), fmt::to_string(rank),
                                   names[stage] + recompute_note(plan.recompute),
                                   format_seconds(costs.forward_s)};
    if (trained) cells.push_back(format_seconds(costs.backward_s));
    cells.push_back(fmt::format("{:.0f} %", 100 * busy));
    cells.push_back(memory(planned, rank));
    if (counted) {
      const auto count = static_cast<double>(parameters(model, planned.slicing.stages[stage]));
      cells.push_back(format_count(count));
    }
    table.row(std::move(cells));
  }
  fmt::format_to(out, "\n{}", table.text(style));
  print_shared_parameters(out, planned.plan);
  if (planned.plan.optimizer_state == OptimizerState::sharded)
    fmt::format_to(out, "\n  optimizer state: sharded over {} replicas\n",
                   planned.plan.data_parallel);
}

/// `, 7420 tokens/s` where samples are windows of tokens.
std::string tokens(const Plan& plan, double samples_per_s) {
  if (plan.job.sequence <= 0) return "";
  return fmt::format(", {:.4g} tokens/s", samples_per_s * static_cast<double>(plan.job.sequence));
}

std::string step(const Planned& planned) {
  const Plan& plan = planned.plan;
  const Prediction& prediction = *plan.prediction;
  const double samples_per_s = static_cast<double>(plan.job.global_batch) / prediction.step_s;
  const std::string expected =
      prediction.expected_s > 0
          ? fmt::format(" ({} expected with noise)", format_seconds(prediction.expected_s))
          : "";
  return fmt::format("{} predicted{}, {:.4g} samples/s{}, bubble {:.1f} %",
                     format_seconds(prediction.step_s), expected, samples_per_s,
                     tokens(plan, samples_per_s), 100 * prediction.bubble);
}

std::string shape(const Planned& planned) {
  const Plan& plan = planned.plan;
  return fmt::format(
      "{}{}, {} of {}, {} of {}{}", plan.schedule, plan.job.forward_only ? ", forwards alone" : "",
      format_number(plan.microbatches, "microbatch"), format_number(plan.microbatch, "sample"),
      format_number(plan.data_parallel, "replica"),
      format_number(plan.ranks(), "rank") +
          (plan.tensor_parallel > 1 ? fmt::format(" of {} parts", plan.tensor_parallel) : ""),
      planned.refined ? ", with light operators moved across its cuts: fewer bytes cross" : "");
}

}  // namespace

std::string plan_report(const Planned& planned, const Graph& model, ReportStyle style) {
  std::string text;
  const Out out(text);
  if (style.verbose) fmt::format_to(out, "{}\n", search_table(planned, style.columns));
  text += labelled("plan", shape(planned), style.columns);
  print_stages(out, planned, model, style);
  print_devices(out, planned, style);
  text += "\n" + labelled("step", step(planned), style.columns);
  text += search_conclusion(planned, style);
  return text;
}

}  // namespace penstock::cli
