// `penstock simulate`: predicts the step of a plan, a schedule or a program; needs no device.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/command_line/commands.hpp"
#include "cli/predict/simulate_study.hpp"
#include "cli/report/ending.hpp"
#include "cli/report/simulate_report.hpp"
#include "cli/report/terminal.hpp"
#include "pipeline/program/timeline.hpp"
#include "simulator/explain/draw.hpp"
#include "simulator/explain/html.hpp"

namespace penstock::cli {

namespace {

constexpr int kMaxDrawn = 32;  // a drawing with more ranks is not looked at

/// With the SENDs and RECVs that lowering would add.
int64_t actions_of(const Study& study) {
  int64_t actions = 0;
  for (const auto& rank : study.program.ranks) actions += static_cast<int64_t>(rank.size());
  const auto& rank_of_stage = study.program.rank_of_stage;
  for (const Flow& flow : study.flows) {
    const bool local = rank_of_stage[static_cast<size_t>(flow.from)] ==
                       rank_of_stage[static_cast<size_t>(flow.to)];
    if (!local) actions += int64_t{flow.gradient ? 4 : 2} * study.program.microbatches;
  }
  return actions;
}

/// Each part of a tensor group does what is simulated of its rank.
Trace of_all_parts(Trace trace, int parts) {
  const auto repeat = [parts](auto& items) {
    const auto one = std::exchange(items, {});
    for (auto item : one) {
      const int rank = item.rank;
      for (int part = 0; part < parts; ++part) {
        item.rank = rank * parts + part;
        items.push_back(item);
      }
    }
  };
  repeat(trace.timeline);
  repeat(trace.memory);
  return trace;
}

/// Before anything is simulated or written.
void check_size(const SimulateOptions& options, int64_t actions) {
  if (options.html.empty() || actions <= max_explained_actions) return;
  throw InputError("--html",
                   fmt::format("{} actions are more than a browser can show ({})", actions,
                               max_explained_actions),
                   "Simulate fewer microbatches: the steady state repeats.");
}

void print(const SimulateOptions& options, const Study& study, const SimulationResults& results) {
  const int columns = terminal_columns();
  fmt::print("{}", simulation_summary(study, results, {columns, options.verbose}));
  if (study.program.rank_count() > kMaxDrawn) return;
  constexpr int margin = 10, otherwise = 90;  // the ranks' names; where there is no terminal
  const int drawn = columns > 0 ? std::max(20, columns - margin) : otherwise;
  const int width = options.width > 0 ? options.width : drawn;
  fmt::print("\n{}",
             draw(results.simulation.timeline, study.program.rank_count(), {width, colours()}));
}

/// The commands that take a plan's trace; none where nothing will be measured that it predicts.
std::vector<std::string> next(const SimulateOptions& options) {
  if (options.plan.empty() || options.trace.empty()) return {};
  if (!options.cluster.empty() || !options.set.empty()) return {};
  return {fmt::format("penstock execute {} --trace measured.json", in_shell(options.plan)),
          fmt::format("penstock compare {} measured.json", in_shell(options.trace))};
}

}  // namespace

int simulate(const SimulateOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Study study = make_study(options);
  const int64_t actions = actions_of(study);
  check_size(options, actions);
  const bool trace = !options.trace.empty(), html = !options.html.empty();
  const SimulationOptions wanted{trace || html || !options.json, trace || html};
  const Simulation simulation =
      study.flows.empty()
          ? penstock::simulate(study.program, study.costs, study.network, wanted)
          : simulate_compute(study.program, study.flows, study.costs, study.network, wanted);
  const std::optional<SampledSteps> samples = sampled(study, options);
  if (samples) study.facts.push_back({"samples", describe(*samples)});
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (trace) {
    write_file(options.trace, to_chrome_trace(of_all_parts({"simulated: " + study.title,
                                                            simulation.timeline, simulation.memory},
                                                           static_cast<int>(study.parts))));
  }
  std::optional<Explanation> explanation;
  if (actions <= max_explained_actions) {
    if (!study.flows.empty()) study.program = lower(study.program, study.flows);
    explanation = explain(study.program, study.costs, study.network);
  }
  const Explanation* const why = explanation ? &*explanation : nullptr;
  if (html) {
    write_file(options.html, to_html({study.title, study.program, simulation, *why, study.memory,
                                      study.facts, study.modules}));
  }
  const SimulationResults results{simulation, why, samples};
  if (options.json) {
    fmt::print("{}", simulation_json(study, results, !options.plan.empty(), elapsed.count()));
  } else {
    print(options, study, results);
    const std::string end = ending({options.trace, options.html}, next(options));
    fmt::print("{}{}", end.empty() ? "" : "\n", end);
  }
  const std::string warning = memory_warning(study, simulation);
  if (!warning.empty()) fmt::print(stderr, "penstock: {}\n", warning);
  return 0;
}

}  // namespace penstock::cli
