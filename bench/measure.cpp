#include "bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>

#include "bench/program.hpp"

namespace penstock::bench {

namespace {

/// A line of /proc/self/status, in bytes; 0 where it is not there.
double status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key + ":", 0) == 0) return 1024 * std::stod(line.substr(key.size() + 1));
  }
  return 0;
}

}  // namespace

const char* name(Study::Links links) {
  switch (links) {
    case Study::Links::eager: return "eager";
    case Study::Links::posted: return "posted";
    case Study::Links::shared: break;
  }
  return "shared";
}

std::string Study::name() const {
  std::string text = schedule + " P=" + std::to_string(ranks);
  if (stages_per_rank > 1) text += " v=" + std::to_string(stages_per_rank);
  text += " M=" + std::to_string(microbatches);
  if (links == Links::posted) text += ", posted";
  if (links == Links::shared) text += ", shared links";
  return text;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Seconds time_call(const std::function<void()>& call) {
  const std::clock_t cpu_start = std::clock();
  const auto start = std::chrono::steady_clock::now();
  call();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  return {wall.count(), static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC};
}

double resident_bytes() { return status_bytes("VmRSS"); }
double peak_resident_bytes() { return status_bytes("VmHWM"); }

double count_tasks(const Study& study) {
  double tasks = 0;
  for (const auto& rank : build_program(study).ranks) {
    for (const Action& action : rank) {
      for_each_part(action, [&](const Action& part) { tasks += is_receive(part.kind) ? 0 : 1; });
    }
  }
  return tasks;
}

}  // namespace penstock::bench
