// `penstock plan`: searches the best plan for a profile and writes it.
#include "planner/plan.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/command_line/commands.hpp"
#include "cli/inputs/plan_request.hpp"
#include "cli/predict/simulate_study.hpp"
#include "cli/predict/what_if.hpp"
#include "cli/report/plan_report.hpp"
#include "cli/report/progress_line.hpp"
#include "estimate/estimate.hpp"
#include "pipeline/job/parameters.hpp"
#include "simulator/costs/replays.hpp"
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

/// The page of `simulate`, for the plan that was written.
void write_page(const PlanOptions& options, const std::string& plan) {
  SimulateOptions simulate;
  simulate.cuda_graphs = options.cuda_graphs;
  const Study study = plan_study(parse_plan(plan, options.output), simulate);
  const Simulation run = penstock::simulate(study.program, study.costs, study.network, {});
  if (run.actions > max_explained_actions) {
    fmt::print(stderr, "penstock: no {}: {} actions are more than a browser can show ({})\n",
               options.html, run.actions, max_explained_actions);
    return;
  }
  const Explanation why = explain(study.program, study.costs, study.network);
  write_file(options.html, to_html({study.title, study.program, run, why, study.memory}));
  fmt::print("written    {}\n", options.html);
}

}  // namespace

int plan(const PlanOptions& options) {
  const PlanRequest request = plan_request(options);
  const CudaGraphs graphs = parse_cuda_graphs(options.cuda_graphs, "--cuda-graphs");
  const Profile profile = with_replays(read_profile(options.profile), graphs);
  const Graph model = read_model(profile.job);
  std::optional<Cluster> cluster;
  if (!options.cluster.empty()) cluster = read_cluster(options.cluster);
  const Cluster* on = cluster ? &*cluster : nullptr;
  SearchProgress progress;
  Planned planned = make_plan(profile, model, on, request, std::ref(progress));
  make_absolute(planned.plan.profile);
  make_absolute(planned.plan.cluster);
  for (const std::string& warning : planned.warnings) fmt::print(stderr, "warning: {}\n", warning);
  if (const std::string note = estimate_note(profile); !note.empty())
    fmt::print("costs      {}\n", note);
  fmt::print("{}", plan_report(planned, model));
  if (options.explain) {
    fmt::print("{}", plan_explanation(planned, what_if(planned, profile, model, on, request)));
  }
  const std::string text = to_yaml(planned.plan, options.output);
  write_file(options.output, text);
  fmt::print("written    {}\n", options.output);
  if (!options.html.empty()) write_page(options, text);
  return 0;
}

}  // namespace penstock::cli
