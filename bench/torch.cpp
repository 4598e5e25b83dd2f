// torch's schedule simulator, run by a Python script beside this file.
#include <sys/wait.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/measure.hpp"

namespace penstock::bench {

namespace {

/// The output of a shell command; "" if it fails.
std::string output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return "";
  std::string text;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  return pclose(pipe) == 0 ? text : "";
}

std::string quoted(const std::string& word) { return "'" + word + "'"; }

}  // namespace

Row measure_torch(const Study& study, int repetitions, const std::string& python) {
  const std::string script = std::string(PENSTOCK_SOURCE) + "/bench/torch_simulate.py";
  const std::string text =
      output_of(quoted(python) + " " + quoted(script) + " " + std::to_string(study.ranks) + " " +
                std::to_string(study.microbatches) + " " + std::to_string(repetitions));
  Row row{.simulator = "torch", .study = study, .repetitions = repetitions};
  const auto said = nlohmann::json::parse(text, nullptr, false);
  if (!said.is_object()) {
    row.skipped = python + " could not run bench/torch_simulate.py";
    return row;
  }
  row.simulator += " " + said.at("torch").get<std::string>();
  row.tasks = said.at("tasks");
  row.peak_bytes = said.at("peak_bytes");
  row.seconds = median(said.at("seconds").get<std::vector<double>>());
  row.cpu_s = median(said.at("cpu_seconds").get<std::vector<double>>());
  return row;
}

}  // namespace penstock::bench
