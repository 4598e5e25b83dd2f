// `penstock show`: what is in a model or a plan.
#include <fmt/format.h>

#include <optional>

#include "base/error.hpp"
#include "cli/command_line/commands.hpp"
#include "cli/files/file_kind.hpp"
#include "cli/inputs/plan_inputs.hpp"
#include "cli/report/show_text.hpp"
#include "graph/pt2/pt2.hpp"
#include "pipeline/job/parameters.hpp"
#include "planner/layouts/request.hpp"

namespace penstock::cli {

namespace {

int show_model(const ShowOptions& options) {
  const Graph model = read_pt2(options.path);
  if (options.profile.empty()) {
    fmt::print("{}", model_text(model));
    return 0;
  }
  const Profile profile = read_profile(options.profile);
  check_model(profile, model);
  fmt::print("{}", model_text(model, &profile.microbatches.back()));
  return 0;
}

/// The costs of its stages where its profile is at hand; `missing` says why they are not.
std::optional<Costs> costs_of(const Plan& plan, const Graph& model, const Slicing& slicing,
                              std::string& missing) {
  try {
    return plan_inputs(plan, model, slicing).costs;
  } catch (const InputError& error) {
    missing = error.what();
    return std::nullopt;
  }
}

int show_plan(const ShowOptions& options) {
  if (!options.profile.empty())
    throw InputError("--profile", "is for models", "A plan names its profile itself.");
  const Plan plan = read_plan(options.path);
  const Graph model = read_model(plan.job);
  check_fingerprint(plan, model);
  const Slicing slicing = slice(plan, model, analyse(model));
  std::string missing;
  const std::optional<Costs> costs = costs_of(plan, model, slicing, missing);
  fmt::print("{}", plan_text(options.path, plan, model, slicing, costs ? &*costs : nullptr));
  if (!costs) fmt::print(stderr, "penstock show: without times and memory: {}\n", missing);
  return 0;
}

}  // namespace

int show(const ShowOptions& options) {
  const FileKind kind = file_kind(options.path);
  if (kind == FileKind::model) return show_model(options);
  if (kind == FileKind::plan) return show_plan(options);
  throw InputError(options.path, "neither a model nor a plan",
                   "Give a MODEL.pt2, or a PLAN.yaml that begins with `penstock: plan`.");
}

}  // namespace penstock::cli
