// A pipeline run by SimGrid; prints the makespan in seconds. Plain numbers: seconds, bytes.
//
//   simgrid-pipeline KEY=VALUE...
//   program=FILE.csv                              a lowered program, or
//   schedule=NAME ranks=P stages=V microbatches=M generated (1f1b, one stage per rank)
//   forward backward backward-input backward-weight   seconds per stage and microbatch
//   message latency bandwidth propagation         of every channel
//   ranks-per-node card-out card-in half-duplex switch   what channels share (platform.hpp)
#include <fmt/format.h>

#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "base/error.hpp"
#include "pipeline/program/schedule.hpp"
#include "tests/simgrid/replay.hpp"

namespace penstock::testing {
namespace {

using Arguments = std::map<std::string, std::string>;

Arguments read_arguments(int count, char** words) {
  Arguments known = {{"program", ""},         {"schedule", "1f1b"},    {"ranks", "2"},
                     {"stages", "1"},         {"microbatches", "4"},   {"forward", "0"},
                     {"backward", "0"},       {"backward-input", "0"}, {"backward-weight", "0"},
                     {"message", "0"},        {"latency", "0"},        {"bandwidth", "0"},
                     {"ranks-per-node", "1"}, {"card-out", "0"},       {"card-in", "0"},
                     {"half-duplex", "0"},    {"propagation", "0"},    {"switch", "0"}};
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const size_t equals = word.find('=');
    const auto found = known.find(word.substr(0, equals));
    if (equals == std::string::npos || found == known.end()) {
      throw InputError("simgrid-pipeline", "`" + word + "` is no KEY=VALUE that it knows",
                       "The head of simgrid_pipeline.cpp lists them.");
    }
    found->second = word.substr(equals + 1);
  }
  return known;
}

Program read_program(const Arguments& given) {
  const std::string& path = given.at("program");
  if (path.empty()) {
    const Program compute = find_schedule(given.at("schedule"), "schedule")
                                .generate({.ranks = std::stoi(given.at("ranks")),
                                           .stages_per_rank = std::stoi(given.at("stages")),
                                           .microbatches = std::stoi(given.at("microbatches"))});
    return lower(compute, chain_flows(compute.stage_count()));
  }
  std::ifstream file(path);
  if (!file) throw InputError(path, "cannot be read", "Name a CSV file.");
  return parse_csv(std::string(std::istreambuf_iterator<char>(file), {}), path);
}

void run(const Arguments& given) {
  const auto number = [&](const char* key) { return std::stod(given.at(key)); };
  const Program program = read_program(given);
  const int stages = program.stage_count();
  const Costs costs = equal_stages(stages,
                                   {.forward_s = number("forward"),
                                    .backward_s = number("backward"),
                                    .backward_input_s = number("backward-input"),
                                    .backward_weight_s = number("backward-weight")},
                                   chain_flows(stages), static_cast<int64_t>(number("message")));
  Platform platform =
      Platform::plain({number("latency"), number("bandwidth"), number("propagation")});
  platform.ranks_per_node = std::stoi(given.at("ranks-per-node"));
  platform.card = {number("card-out"), number("card-in"), number("half-duplex") != 0};
  platform.switch_capacity = number("switch");
  fmt::print("{:.17g}\n", simgrid_makespan_s(program, costs, platform));
}

}  // namespace
}  // namespace penstock::testing

int main(int count, char** words) {
  try {
    penstock::testing::run(penstock::testing::read_arguments(count, words));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
