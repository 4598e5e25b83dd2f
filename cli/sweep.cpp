#include "cli/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/files/given_paths.hpp"
#include "cli/inputs/costed_model.hpp"
#include "cli/inputs/plan_request.hpp"
#include "cli/inputs/sweep_axes.hpp"
#include "cli/interruption.hpp"
#include "cli/predict/sweep.hpp"
#include "cli/report/ending.hpp"
#include "cli/report/profile_report.hpp"
#include "cli/report/progress_line.hpp"
#include "cli/report/sweep_report.hpp"
#include "cli/report/terminal.hpp"
#include "simulator/explain/html.hpp"

namespace penstock::cli {

namespace {

void check_sweep_flags(const PlanOptions& options) {
  if (!options.output.empty())
    throw InputError("-o", "a sweep makes many plans and writes none of them",
                     "Leave it out. The command that writes the plan of the fastest row is printed "
                     "below the table, and --json has the flags of each.");
  if (options.explain)
    throw InputError("--explain", "is of one plan, and a sweep makes many",
                     "Leave it out; plan the row that you choose with it.");
}

/// No page in the place of a device's file.
void check_sweep_paths(const PlanOptions& options, const std::vector<SweepAxis>& axes) {
  std::vector<GivenPath> paths;
  for (const SweepAxis& axis : axes) {
    if (axis.key != "device") continue;
    for (const SweepValue& value : axis.values)
      paths.push_back({.flag = "--sweep device", .use = PathUse::input, .path = value.text});
  }
  if (!options.html.empty())
    paths.push_back({.flag = "--html", .use = PathUse::output_file, .path = options.html});
  check_paths("plan", paths);
}

/// On a terminal, after the first second: which row, and what its search shows.
class SweepLine {
 public:
  explicit SweepLine(const Sweep& sweep) : sweep_(sweep) {}

  void show(const SweepRow& row, const std::string& what, double share_done) {
    const Clock::time_point now = Clock::now();
    if (now < next_) return;
    next_ = now + std::chrono::milliseconds(200);
    const auto number = static_cast<double>(&row - sweep_.rows.data());
    const size_t rows = sweep_.rows.size();
    line_.show(
        (number + share_done) / static_cast<double>(rows),
        fmt::format("row {:.0f} of {}, {}: {}", number + 1, rows, values_text(sweep_, row), what));
  }

 private:
  using Clock = std::chrono::steady_clock;
  const Sweep& sweep_;
  ProgressLine line_;
  Clock::time_point next_ = Clock::now() + std::chrono::seconds(1);
};

/// Its line of progress is gone when it returns.
void plan_all(Sweep& sweep, const PlanCase& base, const Graph& model) {
  SweepLine line(sweep);
  const Interruption noted;
  plan_rows(sweep, base, model,
            [&](const SweepRow& row, const std::string& what, double share_done) {
              line.show(row, what, share_done);
            });
}

bool sweeps(const Sweep& sweep, std::string_view key) {
  return std::ranges::any_of(sweep.axes, [&](auto& axis) { return axis.key.starts_with(key); });
}

/// What the costs of all rows are from.
std::string sweep_note(const Sweep& sweep, const Profile& profile) {
  if (sweeps(sweep, "device")) return "estimated from the figures of each device, not measured";
  if (of_layers(profile) && sweeps(sweep, "links.")) return "of a table of layers";
  return costs_note(profile);
}

void warn(const Sweep& sweep, const Profile& profile) {
  if (sweeps(sweep, "device") && profile.device.details.contains("fit.residual"))
    fmt::print(stderr,
               "warning: {} is fitted to what was measured; the devices of the sweep have the "
               "efficiencies of their own files\n",
               profile.path);
  for (const std::string& warning : sweep.warnings) fmt::print(stderr, "warning: {}\n", warning);
}

}  // namespace

int sweep_plans(const PlanOptions& options) {
  check_sweep_flags(options);
  const CudaGraphs graphs = parse_cuda_graphs(options.cuda_graphs, "--cuda-graphs");
  CostedModel costed = read_costs(options.profile, graphs, options.forward_only, options.survive);
  const Graph model = std::move(costed.model);
  PlanCase base{
      .profile = std::move(costed.profile), .cluster = {}, .request = plan_request(options)};
  base.request.stop = Interruption::asked;
  if (!options.cluster.empty()) base.cluster = read_cluster(options.cluster);
  std::vector<SweepAxis> axes = sweep_axes(options.sweep, base, model);
  check_sweep_paths(options, axes);
  Sweep sweep = combinations(std::move(axes));
  plan_all(sweep, base, model);
  if (!sweep.fastest()) throw InputError("", sweep.rows.front().problem);
  warn(sweep, base.profile);
  const SweepQuestion question{options.profile, sweep_note(sweep, base.profile), options.words};
  const nlohmann::ordered_json json = sweep_json(sweep, question);
  if (!options.html.empty())
    write_file(options.html, to_html(SweepPage{question.costs, question.note, json}));
  if (options.json) {
    fmt::print("{}\n", json.dump());
    return 0;
  }
  const std::string command = row_command(sweep, *sweep.fastest(), question);
  std::vector<std::string> next;
  if (!command.empty()) next.push_back(command);
  fmt::print("{}{}", sweep_report(sweep, question, {terminal_columns(), options.verbose}),
             ending({options.html}, next));
  return 0;
}

}  // namespace penstock::cli
