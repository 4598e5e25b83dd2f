// `penstock plan`: searches the best plan for a profile and writes it.
#include "planner/plan.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "base/file.hpp"
#include "cli/command_line/commands.hpp"
#include "cli/inputs/costed_model.hpp"
#include "cli/inputs/plan_request.hpp"
#include "cli/interruption.hpp"
#include "cli/predict/simulate_study.hpp"
#include "cli/predict/what_if.hpp"
#include "cli/report/cores_note.hpp"
#include "cli/report/ending.hpp"
#include "cli/report/plan_report.hpp"
#include "cli/report/profile_report.hpp"
#include "cli/report/progress_line.hpp"
#include "cli/report/search_report.hpp"
#include "cli/report/terminal.hpp"
#include "cli/sweep.hpp"
#include "estimate/estimate.hpp"
#include "planner/rank_model.hpp"
#include "simulator/explain/explain.hpp"
#include "simulator/explain/html.hpp"

namespace penstock::cli {

namespace {

using Clock = std::chrono::steady_clock;

/// Shows a search that takes longer than a second, five times a second.
class SearchProgress {
 public:
  void operator()(const std::string& what, double share_done) {
    const Clock::time_point now = Clock::now();
    if (now < next_) return;
    next_ = now + std::chrono::milliseconds(200);
    line_.show(share_done, what);
  }

 private:
  ProgressLine line_;
  Clock::time_point next_ = Clock::now() + std::chrono::seconds(1);
};

/// Paths in the plan are written relative to its folder, wherever the command runs.
void make_absolute(std::optional<FileRef>& file) {
  if (file) file->path = std::filesystem::absolute(file->path).lexically_normal().string();
}

/// The page of `simulate`, for the plan that was written; not where it would be too large.
bool write_page(const PlanOptions& options, const std::string& plan) {
  SimulateOptions simulate;
  simulate.cuda_graphs = options.cuda_graphs;
  simulate.survive = options.survive;
  const Study study = plan_study(parse_plan(plan, options.output), simulate);
  const Simulation run = penstock::simulate(study.program, study.costs, study.network, {});
  if (run.actions > max_explained_actions) {
    fmt::print(stderr, "penstock: no {}: {} actions are more than a browser can show ({})\n",
               options.html, run.actions, max_explained_actions);
    return false;
  }
  const Explanation why = explain(study.program, study.costs, study.network);
  write_file(options.html, to_html({study.title, study.program, run, why, study.memory, study.facts,
                                    study.modules}));
  return true;
}

/// Its line of progress is gone when it returns.
Planned searched(const Profile& profile, const Graph& model, const Cluster* cluster,
                 const PlanRequest& request) {
  SearchProgress progress;
  return make_plan(profile, model, cluster, request, std::ref(progress));
}

/// Prints what keeps the plan from its bound, and with --explain what would help; Ctrl-C leaves it
/// out.
void print_what_if(const Planned& planned, const Profile& profile, const Graph& model,
                   const Cluster* on, const PlanRequest& request, const PlanOptions& options,
                   ReportStyle style) {
  SearchProgress progress;
  try {
    fmt::print("{}", relaxations(planned,
                                 relaxed(planned, profile, model, on, request, std::ref(progress)),
                                 style.columns));
    if (!options.explain) return;
    const std::vector<WhatIf> what =
        what_if(planned, profile, model, on, request, std::ref(progress));
    fmt::print("{}", plan_explanation(planned, what, style.columns));
  } catch (const SearchStopped&) {
  }
}

/// The commands that take the plan.
std::string next(const PlanOptions& options, const Profile& profile, const Graph& model) {
  const std::string plan = in_shell(options.output);
  const std::string survive = options.survive == "off" ? "" : " --survive " + options.survive;
  return !estimate_note(profile).empty() || model.layers
             ? fmt::format("penstock simulate {}{} --html timeline.html", plan, survive)
             : fmt::format("penstock execute {}{} --trace measured.json", plan, survive);
}

}  // namespace

int plan(const PlanOptions& options) {
  if (!options.sweep.empty()) return sweep_plans(options);
  PlanRequest request = plan_request(options);
  request.stop = Interruption::asked;
  const CudaGraphs graphs = parse_cuda_graphs(options.cuda_graphs, "--cuda-graphs");
  const auto [profile, model] =
      read_costs(options.profile, graphs, options.forward_only, options.survive);
  std::optional<Cluster> cluster;
  if (!options.cluster.empty()) cluster = read_cluster(options.cluster);
  const Cluster* on = cluster ? &*cluster : nullptr;
  const Interruption noted;
  Planned planned = searched(profile, model, on, request);
  make_absolute(planned.plan.profile);
  make_absolute(planned.plan.cluster);
  for (const std::string& warning : planned.warnings) fmt::print(stderr, "warning: {}\n", warning);
  const ReportStyle style{terminal_columns(), options.verbose};
  if (const std::string note = costs_note(profile); !note.empty())
    fmt::print("{}", labelled("costs", note, style.columns));
  fmt::print("{}", plan_report(planned, planned.model->inputs().model, style));
  if (const std::string note = cores_note(planned, profile, on); !note.empty())
    fmt::print("{}", labelled("cores", note, style.columns));
  const std::string text = to_yaml(planned.plan, options.output);
  write_file(options.output, text);
  std::vector<std::string> written{options.output};
  if (!options.html.empty() && write_page(options, text)) written.push_back(options.html);
  if (!planned.stopped) print_what_if(planned, profile, model, on, request, options, style);
  fmt::print("{}", ending(written, {next(options, profile, model)}));
  return 0;
}

}  // namespace penstock::cli
