#include "cli/report/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/quantity.hpp"
#include "cli/report/table.hpp"
#include "pipeline/plan/sharing.hpp"
#include "pipeline/plan/stage_names.hpp"

namespace penstock::cli {

namespace {

using Out = std::back_insert_iterator<std::string>;

constexpr size_t kMaxRows = 12;

std::string plural(int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

/// The row of one layout.
std::string best_step(const Searched& one) {
  if (one.best_s > 0) return format_seconds(one.best_s);
  const bool fits = one.min_memory_bytes <= one.max_memory_bytes;
  return one.simulated > 0 || !fits ? "too big" : "-";
}

bool is_chosen(const Searched& one, const Planned& planned) {
  const Plan& plan = planned.plan;
  return one.branches == planned.branches && one.schedule == plan.schedule &&
         one.microbatches == plan.microbatches && one.microbatch == plan.microbatch &&
         one.data_parallel == plan.data_parallel && one.ranks == plan.ranks() &&
         one.stages_per_rank * one.ranks == static_cast<int>(plan.stages.size());
}

std::string shape(const Searched& one) {
  return fmt::format("{} x {}", one.data_parallel, one.ranks);
}

std::string schedule(const Searched& one) {
  return one.schedule + (one.branches ? ", branches" : "");
}

std::string splits(const Searched& one) {
  return one.splits == INT64_MAX ? "> 9e18" : fmt::to_string(one.splits);
}

void print_searched(Out out, const Planned& planned) {
  int64_t simulated = 0;
  for (const Searched& one : planned.searched) simulated += one.simulated;
  if (planned.manual)
    fmt::format_to(out, "searched   the split as given");
  else
    fmt::format_to(out, "searched   {} units", planned.units);
  fmt::format_to(out, " on {}: {}, {} looked into, {} simulated",
                 plural(planned.devices, "rank", "ranks"),
                 plural(planned.layouts, "layout", "layouts"), planned.searched.size(),
                 plural(simulated, "split", "splits"));
  if (planned.memory.any())
    fmt::format_to(out, "; {} per rank ({})", format(planned.memory), planned.memory.source);
  Table table({"<", "<schedule", "replicas x ranks", "stages/rank", "microbatches", "samples",
               "splits", "simulated", "best found", "bound", "least memory"});
  for (const Searched& one : planned.searched) {
    if (&one - planned.searched.data() == kMaxRows) break;
    table.row({is_chosen(one, planned) ? "*" : " ", schedule(one), shape(one),
               fmt::to_string(one.stages_per_rank), fmt::to_string(one.microbatches),
               fmt::to_string(one.microbatch), splits(one), fmt::to_string(one.simulated),
               best_step(one), format_seconds(one.lower_bound_s),
               format_bytes(one.min_memory_bytes)});
  }
  fmt::format_to(out, "\n\n{}", table.text());
  if (planned.searched.size() > kMaxRows)
    fmt::format_to(out, "   … and {} more\n", planned.searched.size() - kMaxRows);
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
  if (!planned.memory.any()) return format_bytes(peak);
  const auto limit = static_cast<double>(planned.memory.of(static_cast<int>(rank)));
  const double share = static_cast<double>(peak) / limit;
  return fmt::format("{} ({:.0f} %)", format_bytes(peak), 100 * share);
}

/// `A100 SXM 0.4 0.5, H100 SXM 1.0`: of all replicas of a rank, as node.device.
std::string devices_of_rank(const Cluster& cluster, const Plan& plan, int rank) {
  std::string text, last;
  for (int replica = 0; replica < plan.data_parallel; ++replica) {
    const Cluster::Place place = cluster.place(replica * plan.ranks() + rank);
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
void print_devices(Out out, const Planned& planned) {
  const Plan& plan = planned.plan;
  if (plan.devices.empty()) return;
  Table table({"rank", "<devices of its replicas (node.device)"});
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    table.row({fmt::to_string(rank), devices_of_rank(*planned.cluster, plan, rank)});
  }
  fmt::format_to(out, "\n{}", table.text());
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
  fmt::format_to(out, "\n  {} of several stages (as {}): {}\n",
                 plural(count, "parameter", "parameters"), first, meaning);
}

void print_shared_parameters(Out out, const Plan& plan) {
  print_shared_parameters(out, plan, way_replicate, "replicated, gradients summed");
  print_shared_parameters(out, plan, way_transmit,
                          "transmitted by the rank of the first, which alone updates it");
}

void print_stages(Out out, const Planned& planned, const Graph& model) {
  const size_t stages = planned.plan.stages.size();
  const std::vector<std::string> names =
      stage_names(model, planned.slicing.stage_of_operator, static_cast<int>(stages));
  Table table({"stage", "rank", "<modules", "parameters", "forward", "backward", "rank busy",
               "rank memory"});
  for (size_t stage = 0; stage < stages; ++stage) {
    const StageCosts& costs = planned.costs.stages[stage];
    const StagePlan& plan = planned.plan.stages[stage];
    const auto rank = static_cast<size_t>(plan.rank);
    const double busy = planned.simulation.busy_s[rank] / planned.simulation.makespan_s;
    const auto count = static_cast<double>(parameters(model, planned.slicing.stages[stage]));
    table.row({fmt::to_string(stage), fmt::to_string(rank),
               names[stage] + recompute_note(plan.recompute), format_count(count),
               format_seconds(costs.forward_s), format_seconds(costs.backward_s),
               fmt::format("{:.0f} %", 100 * busy), memory(planned, rank)});
  }
  fmt::format_to(out, "\n{}", table.text());
  print_shared_parameters(out, planned.plan);
}

/// `, 7420 tokens/s` where samples are windows of tokens.
std::string tokens(const Plan& plan, double samples_per_s) {
  if (plan.job.sequence <= 0) return "";
  return fmt::format(", {:.4g} tokens/s", samples_per_s * static_cast<double>(plan.job.sequence));
}

/// `ramp 12.0 %, transfers 3.1 %`: of the time that the parts add up to.
std::string shares(const TimeParts& time,
                   const std::vector<std::pair<const char*, double>>& parts) {
  std::string list;
  for (const auto& [name, seconds] : parts) {
    const double percent = 100 * seconds / time.total_s();
    if (std::abs(percent) < 0.05) continue;
    list += fmt::format("{}{} {:.1f} %", list.empty() ? "" : ", ", name, percent);
  }
  return list;
}

std::string causes(const std::optional<TimeParts>& time) {
  if (!time) return "";
  const IdleParts& idle = time->idle;
  return shares(*time, {{"ramp", idle.ramp_s},
                        {"imbalance", idle.imbalance_s},
                        {"transfers", idle.transfers_s},
                        {"launch", idle.launch_s},
                        {"recompute", time->lost_to_memory_s()},
                        {"all-reduce", idle.all_reduce_s}});
}

/// The causes that keep the step from the bound, the largest first.
void print_binding(Out out, const TimeParts& time) {
  std::vector<std::pair<const char*, double>> lost{{"compute", time.lost_to_compute_s()},
                                                   {"memory", time.lost_to_memory_s()},
                                                   {"network", time.lost_to_network_s()},
                                                   {"launch", time.lost_to_launch_s()}};
  std::ranges::stable_sort(lost, std::greater{}, &std::pair<const char*, double>::second);
  fmt::format_to(out, "binding    {}: of the ranks' time {} is work; {}\n", lost.front().first,
                 shares(time, {{"", time.work_s}}).substr(1), causes(time));
}

void print_result(Out out, const Planned& planned) {
  const Plan& plan = planned.plan;
  const Prediction& prediction = *plan.prediction;
  const double samples_per_s = static_cast<double>(plan.job.global_batch) / prediction.step_s;
  fmt::format_to(out, "\nstep       {} predicted, {:.4g} samples/s{}, bubble {:.1f} %\n",
                 format_seconds(prediction.step_s), samples_per_s, tokens(plan, samples_per_s),
                 100 * prediction.bubble);
  fmt::format_to(out,
                 "bound      {}: no plan of this space can be faster; this one is {:.2f} % above\n",
                 format_seconds(planned.lower_bound_s), 100 * planned.gap());
  if (format_seconds(planned.split_bound_s) != format_seconds(planned.lower_bound_s))
    fmt::format_to(out, "           {} for this split, schedule and number of microbatches\n",
                   format_seconds(planned.split_bound_s));
  if (planned.time) print_binding(out, *planned.time);
  fmt::format_to(out, "search     {}\n",
                 planned.complete
                     ? "complete: every plan of this space was simulated or cannot be better"
                     : fmt::format("stopped after its effort: what is left takes {} at least",
                                   format_seconds(planned.open_bound_s)));
}

}  // namespace

std::string plan_explanation(const Planned& planned, const std::vector<WhatIf>& what_if) {
  std::string text;
  const Out out(text);
  const double step_s = planned.plan.prediction->step_s;
  Table table({"<alternative", "replicas x ranks", "stages/rank", "microbatches", "step", "slower",
               "bubble", "memory", "<lost to"});
  for (const Alternative& one : planned.alternatives) {
    table.row({schedule(one.layout), shape(one.layout), fmt::to_string(one.layout.stages_per_rank),
               fmt::to_string(one.layout.microbatches), format_seconds(one.layout.best_s),
               fmt::format("{:.2f} %", 100 * (one.layout.best_s / step_s - 1)),
               fmt::format("{:.1f} %", 100 * one.bubble), format_bytes(one.peak_memory_bytes),
               causes(one.time)});
  }
  if (!planned.alternatives.empty()) fmt::format_to(out, "\n{}", table.text());
  for (const WhatIf& one : what_if) {
    fmt::format_to(out, "\nwith {}: {} ({:+.2f} %) by {}", one.change, format_seconds(one.step_s),
                   100 * (one.step_s / step_s - 1), one.plan);
  }
  if (!what_if.empty()) fmt::format_to(out, "\n\n");
  return text;
}

std::string plan_report(const Planned& planned, const Graph& model) {
  std::string text;
  const Out out(text);
  print_searched(out, planned);
  const Plan& plan = planned.plan;
  fmt::format_to(out, "\nplan       {}, {} of {}", plan.schedule,
                 plural(plan.microbatches, "microbatch", "microbatches"),
                 plural(plan.microbatch, "sample", "samples"));
  fmt::format_to(out, ", {} of {}\n", plural(plan.data_parallel, "replica", "replicas"),
                 plural(plan.ranks(), "rank", "ranks"));
  if (planned.refined)
    fmt::format_to(out,
                   "           with light operators moved across its cuts: fewer bytes cross\n");
  print_stages(out, planned, model);
  print_devices(out, planned);
  print_result(out, planned);
  return text;
}

}  // namespace penstock::cli
