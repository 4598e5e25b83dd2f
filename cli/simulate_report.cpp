#include "cli/simulate_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/table.hpp"
#include "pipeline/quantity.hpp"

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

std::string plural(int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : what[0] == 'm' ? "es" : "s");
}

}  // namespace

std::string simulation_summary(const Study& study, const Simulation& simulation) {
  const Program& program = study.program;
  std::string text =
      fmt::format("{}: {}, {}, {}\n\n  step    {}\n  bubble  {:.1f} %\n\n", study.title,
                  plural(program.rank_count(), "rank"), plural(program.stage_count(), "stage"),
                  plural(program.microbatches, "microbatch"), format_seconds(simulation.makespan_s),
                  100 * simulation.bubble);
  Table table({"rank", "<stages", "busy", "idle", "held at once", "peak memory"});
  for (int rank = 0; rank < program.rank_count(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    table.row({std::to_string(rank), stages_of(program, rank), format_seconds(simulation.busy_s[r]),
               format_seconds(simulation.makespan_s - simulation.busy_s[r]),
               std::to_string(simulation.peak_activations[r]),
               format_bytes(simulation.peak_memory_bytes[r])});
  }
  return text + table.text();
}

std::string simulation_json(const Study& study, const Simulation& simulation, bool plan,
                            double elapsed_s) {
  nlohmann::ordered_json json;
  if (plan) json["step_s"] = simulation.makespan_s;
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
  if (study.memory_bytes > 0) json["memory_bytes"] = study.memory_bytes;
  json["elapsed_s"] = elapsed_s;
  return json.dump() + "\n";
}

std::string memory_warning(const Study& study, const Simulation& simulation) {
  if (study.memory_bytes <= 0) return "";
  std::string list;
  for (size_t rank = 0; rank < simulation.peak_memory_bytes.size(); ++rank) {
    const int64_t peak = simulation.peak_memory_bytes[rank];
    if (peak <= study.memory_bytes) continue;
    list += fmt::format("\n  rank {} needs {}, {} more than it has", rank, format_bytes(peak),
                        format_bytes(peak - study.memory_bytes));
  }
  return list.empty() ? ""
                      : fmt::format("this does not fit into {} per rank:{}",
                                    format_bytes(study.memory_bytes), list);
}

}  // namespace penstock::cli
