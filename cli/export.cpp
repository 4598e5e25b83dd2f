// `penstock export`: a plan for other tools.
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/plan_inputs.hpp"
#include "graph/analysis.hpp"
#include "graph/error.hpp"
#include "graph/file.hpp"
#include "graph/pt2.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/torch_csv.hpp"

namespace penstock::cli {

namespace {

constexpr const char* lowered_version = "2.11";

void check_options(const ExportOptions& options) {
  if (options.format != "torch-csv") {
    throw InputError("--format", fmt::format("there is no format `{}`", options.format),
                     "Formats: torch-csv. " + did_you_mean(options.format, {"torch-csv"}));
  }
  if (options.lowered.empty() || options.lowered == lowered_version) return;
  throw InputError("--lowered",
                   fmt::format("the lowered format of torch {} is not known", options.lowered),
                   fmt::format("Give {}, or leave it out: the compute-only format is the same in "
                               "every version, and torch lowers it itself.",
                               lowered_version));
}

}  // namespace

int export_plan(const ExportOptions& options) {
  check_options(options);
  Plan plan = read_plan(options.plan);
  const Graph model = read_pt2(plan.job.model);
  check_fingerprint(plan, model);
  const Slicing slicing = slice(plan, model, analyse(model));
  make_adaptive(plan, model, slicing);
  const std::vector<Flow> stage_flows = flows(slicing);
  const Program compute = compute_program(plan, stage_flows);
  write_file(options.output, options.lowered.empty()
                                 ? to_torch_compute_csv(compute)
                                 : to_torch_lowered_csv(compute, stage_flows, plan.path));
  fmt::print("wrote {}: {} ranks, {} stages, {} microbatches{}\n", options.output,
             compute.rank_count(), compute.stage_count(), compute.microbatches,
             options.lowered.empty() ? "" : ", lowered for torch " + options.lowered);
  return 0;
}

}  // namespace penstock::cli
