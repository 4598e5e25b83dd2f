#include "cli/report/simulate_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/quantity.hpp"
#include "cli/report/cores_note.hpp"
#include "cli/report/table.hpp"
#include "simulator/explain/parts_json.hpp"

namespace penstock::cli {

namespace {

std::string stages_of(const Program& program, int rank) {
  std::string list;
  for (int stage = 0; stage < program.stage_count(); ++stage) {
    if (program.rank_of_stage[static_cast<size_t>(stage)] != rank) continue;
    list += fmt::format("{}{}", list.empty() ? "" : " ", stage);
  }
  return list;
}

/// One number, or one of each rank where they differ.
nlohmann::ordered_json limits(const MemoryLimit& limit, size_t ranks) {
  if (limit.reserved_bytes.empty()) return limit.max_bytes;
  auto bytes = nlohmann::ordered_json::array();
  for (size_t rank = 0; rank < ranks; ++rank) bytes.push_back(limit.of(static_cast<int>(rank)));
  return bytes;
}

constexpr std::pair<const char*, double IdleParts::*> idle_names[] = {
    {"ramp", &IdleParts::ramp_s},           {"imbalance", &IdleParts::imbalance_s},
    {"transfers", &IdleParts::transfers_s}, {"launch", &IdleParts::launch_s},
    {"recompute", &IdleParts::recompute_s}, {"all-reduce", &IdleParts::all_reduce_s}};
constexpr std::pair<const char*, int64_t MemoryParts::*> memory_names[] = {
    {"fixed", &MemoryParts::fixed_bytes},
    {"snapshots", &MemoryParts::snapshot_bytes},
    {"messages", &MemoryParts::message_bytes},
    {"activations", &MemoryParts::saved_bytes},
    {"kept for W", &MemoryParts::saved_weight_bytes},
    {"recomputed", &MemoryParts::recomputed_bytes},
    {"transient", &MemoryParts::transient_bytes}};

/// `: ramp 20.1 %, transfers 5.0 %`, in parts of all ranks' time; those that would read 0.0 % are
/// left out.
std::string bubble_parts(const Simulation& simulation, const Explanation& explanation) {
  const IdleParts total = sum(explanation.idle);
  const double capacity_s = static_cast<double>(explanation.idle.size()) * simulation.makespan_s;
  std::string list;
  for (const auto& [name, part] : idle_names) {
    const double percent = capacity_s > 0 ? 100 * total.*part / capacity_s : 0;
    if (percent < 0.05) continue;
    list += fmt::format("{}{} {:.1f} %", list.empty() ? ": " : ", ", name, percent);
  }
  return list;
}

std::string limits(const Explanation& explanation) {
  const auto rank = static_cast<size_t>(explanation.limiting_rank);
  return fmt::format("rank {}, longest on the critical path with {}", rank,
                     format_seconds(explanation.path.rank_s.at(rank)));
}

/// The members of MemoryParts that some rank has; none where they would only repeat the peak.
std::vector<std::pair<const char*, int64_t MemoryParts::*>> memory_columns(
    const Simulation& simulation) {
  std::vector<std::pair<const char*, int64_t MemoryParts::*>> columns;
  for (const auto& column : memory_names) {
    const auto has = [&](const MemoryParts& parts) { return parts.*column.second != 0; };
    if (std::ranges::any_of(simulation.peak_memory, has)) columns.push_back(column);
  }
  return columns.size() > 1 ? columns : decltype(columns){};
}

std::string rank_table(const Program& program, const Simulation& simulation, ReportStyle style) {
  const bool bytes = std::ranges::any_of(simulation.peak_memory_bytes, std::identity());
  const auto columns = memory_columns(simulation);
  std::vector<std::string> headings{"rank", "<stages", "busy", "idle", "held at once"};
  if (bytes) headings.emplace_back("peak memory");
  for (const auto& column : columns) headings.emplace_back(column.first);
  Table table(std::move(headings));
  for (int rank = 0; rank < program.rank_count(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    std::vector<std::string> cells{std::to_string(rank), stages_of(program, rank),
                                   format_seconds(simulation.busy_s[r]),
                                   format_seconds(simulation.makespan_s - simulation.busy_s[r]),
                                   std::to_string(simulation.peak_activations[r])};
    if (bytes) cells.push_back(format_bytes(simulation.peak_memory_bytes[r]));
    for (const auto& column : columns) {
      cells.push_back(format_bytes(simulation.peak_memory[r].*column.second));
    }
    table.row(std::move(cells));
  }
  return table.text(style);
}

void add_explanation(nlohmann::ordered_json& json, const Explanation& explanation) {
  for (const IdleParts& rank : explanation.idle) json["idle"].push_back(to_json(rank));
  json["limiting_rank"] = explanation.limiting_rank;
  const CriticalPath& path = explanation.path;
  json["critical_path"] = {{"compute_s", path.compute_s}, {"transfer_s", path.transfer_s},
                           {"reduce_s", path.reduce_s},   {"launch_s", path.launch_s},
                           {"wait_s", path.wait_s},       {"rank_s", path.rank_s},
                           {"steps", path.steps.size()}};
}

}  // namespace

std::string describe(const SampledSteps& samples) {
  return fmt::format("{} with drawn times: mean {}, median {}, 5th percentile {}, 95th {}",
                     format_number(samples.count, "step"), format_seconds(samples.mean_s),
                     format_seconds(samples.median_s), format_seconds(samples.p5_s),
                     format_seconds(samples.p95_s));
}

nlohmann::ordered_json to_json(const SampledSteps& samples) {
  return {{"count", samples.count},       {"seed", samples.seed}, {"mean_s", samples.mean_s},
          {"median_s", samples.median_s}, {"p5_s", samples.p5_s}, {"p95_s", samples.p95_s}};
}

namespace {

/// A line for inference; nothing for training.
std::string throughput(const Study& study, const Simulation& simulation, ReportStyle style) {
  if (study.samples == 0) return "";
  return labelled("inference", describe_inference(study.samples, simulation.makespan_s),
                  style.columns);
}

}  // namespace

std::string describe_inference(int64_t samples, double step_s) {
  return fmt::format("{} after {}, {:.4g} samples/s", format_number(samples, "sample"),
                     format_seconds(step_s), static_cast<double>(samples) / step_s);
}

std::string simulation_summary(const Study& study, const SimulationResults& results,
                               ReportStyle style) {
  const auto& [simulation, explanation, samples] = results;
  const Program& program = study.program;
  const std::string replicas =
      study.replicas > 1 ? fmt::format("1 of {} replicas, ", study.replicas) : "";
  const std::string parts =
      study.parts > 1 ? fmt::format(" of {}", format_number(study.parts, "part")) : "";
  const std::string title = fmt::format("{}: {}{}{}, {}, {}", study.title, replicas,
                                        format_number(program.rank_count(), "rank"), parts,
                                        format_number(program.stage_count(), "stage"),
                                        format_number(program.microbatches, "microbatch"));
  const std::string bubble = fmt::format("{:.1f} %{}", 100 * simulation.bubble,
                                         explanation ? bubble_parts(simulation, *explanation) : "");
  const std::string not_explained =
      fmt::format("(causes are not worked out for more than {} actions)", max_explained_actions);
  const std::string cores = cores_note(study.costs);
  return labelled("simulated", title, style.columns) +
         labelled("step", format_seconds(simulation.makespan_s), style.columns) +
         throughput(study, simulation, style) +
         (samples ? labelled("samples", describe(*samples), style.columns) : "") +
         (cores.empty() ? "" : labelled("cores", cores, style.columns)) +
         labelled("bubble", bubble, style.columns) +
         labelled("limits", explanation ? limits(*explanation) : not_explained, style.columns) +
         "\n" + rank_table(program, simulation, style);
}

std::string simulation_json(const Study& study, const SimulationResults& results, bool plan,
                            double elapsed_s) {
  const auto& [simulation, explanation, samples] = results;
  nlohmann::ordered_json json;
  if (plan) json["step_s"] = simulation.makespan_s;
  if (study.samples > 0)
    json["samples_per_s"] = static_cast<double>(study.samples) / simulation.makespan_s;
  json["makespan_s"] = simulation.makespan_s;
  json["bubble"] = simulation.bubble;
  json["ranks"] = study.program.rank_count();
  json["stages"] = study.program.stage_count();
  json["microbatches"] = study.program.microbatches;
  json["actions"] = simulation.actions;
  json["busy_s"] = simulation.busy_s;
  json["rank_start_s"] = simulation.rank_start_s;
  json["rank_end_s"] = simulation.rank_end_s;
  json["peak_activations"] = simulation.peak_activations;
  json["peak_memory_bytes"] = simulation.peak_memory_bytes;
  for (const MemoryParts& rank : simulation.peak_memory)
    json["peak_memory"].push_back(to_json(rank));
  if (explanation) add_explanation(json, *explanation);
  if (samples) json["samples"] = to_json(*samples);
  if (study.memory.any())
    json["memory_bytes"] = limits(study.memory, simulation.peak_memory_bytes.size());
  json["elapsed_s"] = elapsed_s;
  return json.dump() + "\n";
}

std::string memory_warning(const Study& study, const Simulation& simulation) {
  std::string list;
  for (size_t rank = 0; rank < simulation.peak_memory_bytes.size(); ++rank) {
    const int64_t peak = simulation.peak_memory_bytes[rank];
    const int64_t limit = study.memory.of(static_cast<int>(rank));
    if (peak <= limit) continue;
    list += fmt::format("\n  rank {} needs {}, {} more than it has", rank, format_bytes(peak),
                        format_bytes(peak - limit));
  }
  return list.empty()
             ? ""
             : fmt::format("this does not fit into {} per rank:{}", format(study.memory), list);
}

}  // namespace penstock::cli
