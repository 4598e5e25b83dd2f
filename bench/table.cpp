#include "bench/table.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace penstock::bench {

std::string table_heading(const Machine& machine) {
  const std::string run = fmt::format("{}, {} cores, load {:.1f}, {}", machine.processor,
                                      machine.cores, machine.load, machine.date);
  const std::string columns = fmt::format(
      "{:<13} {:<31} {:>9} {:>11} {:>11} {:>9} {:>11} {:>12} {:>5}\n", "simulator", "schedule",
      "tasks", "median", "processor", "tasks/s", "bytes/task", "makespan", "runs");
  return "Simulating a step, from arguments to makespan: " + run +
         "\n"
         "F, I and W 1 ms, B 2 ms; 16 MB messages, 25 GB/s, 10 us. A task is a compute action or "
         "a\n"
         "message; tasks/s are those per second of processor time, on one core.\n\n" +
         columns;
}

std::string table_line(const Row& row) {
  const std::string names = fmt::format("{:<13} {:<31}", row.simulator, row.study.name());
  if (!row.skipped.empty()) return fmt::format("{} skipped: {}\n", names, row.skipped);
  const std::string makespan =
      row.makespan_s > 0 ? fmt::format("{:.6f} s", row.makespan_s) : "no times";
  return fmt::format("{} {:>9.0f} {:>8.2f} ms {:>8.2f} ms {:>7.2f} M {:>11.0f} {:>12} {:>5}\n",
                     names, row.tasks, 1e3 * row.seconds, 1e3 * row.cpu_s, 1e-6 * row.tasks_per_s(),
                     row.bytes_per_task(), makespan, row.repetitions);
}

std::string json_heading(const Machine& machine) {
  return nlohmann::ordered_json{{"processor", machine.processor},
                                {"cores", machine.cores},
                                {"load", machine.load},
                                {"date", machine.date}}
             .dump() +
         "\n";
}

std::string json_line(const Row& row) {
  nlohmann::ordered_json line{{"simulator", row.simulator},
                              {"schedule", row.study.schedule},
                              {"ranks", row.study.ranks},
                              {"stages_per_rank", row.study.stages_per_rank},
                              {"microbatches", row.study.microbatches},
                              {"links", name(row.study.links)}};
  if (!row.skipped.empty()) {
    line["skipped"] = row.skipped;
    return line.dump() + "\n";
  }
  line["tasks"] = static_cast<int64_t>(row.tasks);
  line["median_s"] = row.seconds;
  line["cpu_s"] = row.cpu_s;
  line["tasks_per_s"] = row.tasks_per_s();
  line["bytes_per_task"] = row.bytes_per_task();
  if (row.makespan_s > 0) line["makespan_s"] = row.makespan_s;
  line["repetitions"] = row.repetitions;
  return line.dump() + "\n";
}

}  // namespace penstock::bench
