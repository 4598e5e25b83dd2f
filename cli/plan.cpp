// `penstock plan`: searches the best plan for a profile and writes it.
#include "planner/plan.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "cli/commands.hpp"
#include "cli/plan_report.hpp"
#include "cli/progress_line.hpp"
#include "graph/error.hpp"
#include "graph/file.hpp"
#include "graph/pt2.hpp"
#include "planner/estimate.hpp"

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

PlanRequest request(const PlanOptions& options) {
  PlanRequest request;
  request.ranks = options.ranks;
  request.schedules = options.schedules;
  request.microbatches = options.microbatches;
  request.memory_bytes = options.memory_bytes;
  request.split = options.split;
  request.allow_batch_coupling = options.allow_batch_coupling;
  return request;
}

Planned search(const PlanOptions& options, const Profile& profile, const Graph& model) {
  std::optional<Cluster> cluster;
  if (!options.cluster.empty()) cluster = read_cluster(options.cluster);
  SearchProgress progress;
  return make_plan(profile, model, cluster ? &*cluster : nullptr, request(options),
                   std::ref(progress));
}

/// What the plan refers to is written relative to its folder, wherever the command runs.
void make_absolute(std::optional<FileRef>& file) {
  if (file) file->path = std::filesystem::absolute(file->path).lexically_normal().string();
}

}  // namespace

int plan(const PlanOptions& options) {
  const Profile profile = read_profile(options.profile);
  const Graph model = read_pt2(profile.job.model);
  Planned planned = search(options, profile, model);
  make_absolute(planned.plan.profile);
  make_absolute(planned.plan.cluster);
  for (const std::string& warning : planned.warnings) fmt::print(stderr, "warning: {}\n", warning);
  if (const std::string note = estimate_note(profile); !note.empty())
    fmt::print("costs      {}\n", note);
  fmt::print("{}", plan_report(planned, model));
  write_file(options.output, to_yaml(planned.plan, options.output));
  fmt::print("written    {}\n", options.output);
  return 0;
}

}  // namespace penstock::cli
