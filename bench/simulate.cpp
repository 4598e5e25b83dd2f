// bench-simulate: how fast steps are simulated, by us, by SimGrid and by torch, all in one run.
//
//   bench-simulate [--json] [--only TEXT] [--repetitions N] [--python PATH]
//
// --only measures the rows whose simulator or schedule, as the table names them, contains TEXT.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>

#include "bench/table.hpp"

namespace penstock::bench {
namespace {

struct Options {
  bool json = false;
  std::string only, python = std::string(PENSTOCK_SOURCE) + "/.venv/bin/python";
  int repetitions = 0;  // 0: as many as the study's size allows
};

Options read_options(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&] {
      if (++i == count) throw std::invalid_argument(word + " needs a value");
      return std::string(words[i]);
    };
    if (word == "--json")
      options.json = true;
    else if (word == "--only")
      options.only = value();
    else if (word == "--python")
      options.python = value();
    else if (word == "--repetitions")
      options.repetitions = std::max(1, std::atoi(value().c_str()));
    else
      throw std::invalid_argument("unknown option " + word + "; simulate.cpp lists them");
  }
  return options;
}

/// Small studies often, the largest five times.
int repetitions(const Study& study) {
  const double cells = double(study.ranks) * study.stages_per_rank * study.microbatches;
  return static_cast<int>(std::clamp(std::round(1e6 / cells), 5.0, 51.0));
}

const std::vector<Study>& studies() {
  static const std::vector<Study> all = {{"1f1b", 8, 1, 512},
                                         {"1f1b", 64, 1, 512},
                                         {"1f1b", 1024, 1, 1024},
                                         {"gpipe", 8, 1, 512},
                                         {"interleaved-1f1b", 8, 4, 512},
                                         {"looped-bfs", 8, 4, 512},
                                         {"interleaved-zb", 8, 4, 512},
                                         {"zb-h1", 8, 1, 512},
                                         {"zb-h2", 8, 1, 512},
                                         {"zbv", 8, 2, 512},
                                         {"dualpipev", 8, 2, 512},
                                         {"1f1b", 8, 1, 512, Study::Links::posted},
                                         {"1f1b", 1024, 1, 1024, Study::Links::posted},
                                         {"1f1b", 8, 1, 512, Study::Links::shared},
                                         {"1f1b", 64, 1, 512, Study::Links::shared}};
  return all;
}

void measure(const Options& options, const std::string& simulator, const Study& study, int times,
             const std::function<Row(const Study&, int)>& measure_row) {
  const std::string name = simulator + " " + study.name();
  if (name.find(options.only) == std::string::npos) return;
  const Row row = measure_row(study, options.repetitions > 0 ? options.repetitions : times);
  std::fputs((options.json ? json_line(row) : table_line(row)).c_str(), stdout);
  std::fflush(stdout);
}

void run(const Options& options) {
  const Machine machine = this_machine();
  std::fputs((options.json ? json_heading(machine) : table_heading(machine)).c_str(), stdout);
  for (const Study& study : studies()) {
    measure(options, "penstock", study, repetitions(study), measure_ours);
  }
  const Study peers = studies().front();
  measure(options, "SimGrid", peers, 5, measure_simgrid);
  measure(options, "torch", peers, 5, [&](const Study& study, int times) {
    return measure_torch(study, times, options.python);
  });
}

}  // namespace
}  // namespace penstock::bench

int main(int count, char** words) {
  try {
    penstock::bench::run(penstock::bench::read_options(count, words));
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "bench-simulate: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-simulate: {}\n", error.what());
    return 1;
  }
}
