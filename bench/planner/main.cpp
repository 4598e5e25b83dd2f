// bench-planner: other planners' inputs, solved under their authors' own objectives.
//
//   bench-planner FILE… [--devices N] [--memory BYTES] [--bandwidth B/s] [--batch N]
//                 [--profile-batch N] [--json]
//
// Reads layer graphs of PipeDream and DAPPLE, and JSON of dnn-partitioning and Piper. Without
// options a file is solved for the settings for which its authors published a value. All files are
// read before the first is solved.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "bench/machine.hpp"
#include "bench/planner/published.hpp"
#include "bench/planner/report.hpp"

namespace penstock::bench {
namespace {

struct Options {
  std::vector<std::string> files;
  SettingOptions setting;
  std::string memory, bandwidth;
  bool json = false;
};

void add_count(CLI::App& app, const char* flag, std::optional<int>& value, const char* help) {
  app.add_option(flag, value, help)->type_name("N")->check(CLI::Range(1, 1 << 20).description(""));
}

void declare(CLI::App& app, Options& options) {
  app.add_option("FILE", options.files,
                 "Layer graphs of PipeDream or DAPPLE, JSON of "
                 "dnn-partitioning or Piper")
      ->required();
  add_count(app, "--devices", options.setting.devices, "Workers or accelerators");
  app.add_option("--memory", options.memory, "Of a device, such as 8GiB")->type_name("BYTES");
  app.add_option("--bandwidth", options.bandwidth, "Between devices, such as 25GB/s")
      ->type_name("B/s");
  add_count(app, "--batch", options.setting.batch, "Samples (Piper: microbatches) of a step");
  add_count(app, "--profile-batch", options.setting.profile_batch,
            "Samples that a layer graph was profiled with; chooses DAPPLE's objective");
  app.add_flag("--json", options.json, "One JSON object a line");
}

void run(Options options) {
  if (!options.memory.empty())
    options.setting.memory_bytes = static_cast<double>(parse_bytes(options.memory, "--memory"));
  if (!options.bandwidth.empty())
    options.setting.bytes_per_s = parse_bytes_per_second(options.bandwidth, "--bandwidth");
  if (options.setting.bytes_per_s == 0.0)
    throw InputError("--bandwidth", "0 B/s never delivers anything", "Give more than 0.");
  std::vector<std::pair<PeerFile, std::vector<Setting>>> work;
  for (const std::string& path : options.files) {
    PeerFile file = read_peer_file(path);
    std::vector<Setting> all = settings(file, options.setting);
    work.emplace_back(std::move(file), std::move(all));
  }
  if (!options.json) {
    const Machine machine = this_machine();
    fmt::print(
        "Other planners' inputs under their own objectives: {}, {} cores, load {:.1f}, {}\n\n{}",
        machine.processor, machine.cores, machine.load, machine.date, peer_heading());
  }
  for (const auto& [file, all] : work) {
    for (const Setting& setting : all) {
      const PeerRow row{file.path, setting, published(file.sha256, setting), solve(file, setting)};
      std::fputs((options.json ? peer_json_line(row) : peer_table_line(row)).c_str(), stdout);
      std::fflush(stdout);
    }
  }
}

/// The exit status.
int command(int count, char** words) {
  CLI::App app("Other planners' inputs, solved under their authors' own objectives",
               "bench-planner");
  Options options;
  declare(app, options);
  try {
    app.parse(count, words);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw InputError("bench-planner", error.what(), "bench-planner --help lists the options.");
  }
  run(std::move(options));
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** words) {
  try {
    return penstock::bench::command(count, words);
  } catch (const penstock::InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-planner: {}\n", error.what());
    return 1;
  }
}
