// `penstock simulate`: predicts the step of a plan, a schedule or a program; needs no device.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "cli/commands.hpp"
#include "cli/simulate_report.hpp"
#include "cli/simulate_study.hpp"
#include "graph/file.hpp"
#include "pipeline/timeline.hpp"
#include "simulator/draw.hpp"

namespace penstock::cli {

namespace {

constexpr int most_rows = 32;  // a drawing with more ranks is not looked at

int terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 100;
}

/// Colours only on a terminal, and not where NO_COLOR is set (no-color.org).
bool colours() {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && (no_colour == nullptr || *no_colour == '\0');
}

void print(const SimulateOptions& options, const Study& study, const Simulation& simulation) {
  fmt::print("{}", simulation_summary(study, simulation));
  if (study.program.rank_count() > most_rows) return;
  constexpr int margin = 10;  // the ranks' names
  const int width = options.width > 0 ? options.width : std::max(20, terminal_columns() - margin);
  fmt::print("\n{}", draw(simulation.timeline, study.program.rank_count(), {width, colours()}));
}

}  // namespace

int simulate(const SimulateOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const Study study = make_study(options);
  const bool trace = !options.trace.empty();
  const SimulationOptions wanted{trace || !options.json, trace};
  const Simulation simulation =
      study.flows.empty()
          ? penstock::simulate(study.program, study.costs, study.network, wanted)
          : simulate_compute(study.program, study.flows, study.costs, study.network, wanted);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (trace) {
    write_file(options.trace, to_chrome_trace({"simulated: " + study.title, simulation.timeline,
                                               simulation.memory}));
  }
  if (options.json) {
    fmt::print("{}", simulation_json(study, simulation, !options.plan.empty(), elapsed.count()));
  } else {
    print(options, study, simulation);
  }
  const std::string warning = memory_warning(study, simulation);
  if (!warning.empty()) fmt::print(stderr, "penstock: {}\n", warning);
  return 0;
}

}  // namespace penstock::cli
