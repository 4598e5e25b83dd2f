// `penstock show`: what is in a file, and which command takes it.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "cli/command_line/commands.hpp"
#include "cli/files/file_kind.hpp"
#include "cli/inputs/costed_model.hpp"
#include "cli/inputs/plan_inputs.hpp"
#include "cli/report/ending.hpp"
#include "cli/report/profile_report.hpp"
#include "cli/report/terminal.hpp"
#include "cli/show/show_text.hpp"
#include "graph/pt2/pt2.hpp"
#include "pipeline/job/parameters.hpp"

namespace penstock::cli {

namespace {

std::string show_model(const ShowOptions& options, ReportStyle style) {
  const Graph model = read_pt2(options.path);
  if (options.profile.empty()) return model_text(model, nullptr, style);
  const Profile profile = read_profile(options.profile);
  check_model(profile, model);
  return model_text(model, &profile.microbatches.back(), style);
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

void check_stage(int stage, const Plan& plan) {
  if (plan.layers)
    throw InputError("--stage", "lists operators, and this plan is of a table of layers",
                     "Leave it out: the layers of each stage are then listed.");
  const auto count = static_cast<int>(plan.stages.size());
  if (stage >= 0 && stage < count) return;
  throw InputError(fmt::format("--stage {}", stage),
                   "the plan has " + format_number(count, "stage"),
                   count == 1 ? "Give 0." : fmt::format("Give one of 0 to {}.", count - 1));
}

std::string show_plan(const ShowOptions& options, ReportStyle style) {
  const Plan plan = read_plan(options.path);
  if (options.stage) check_stage(*options.stage, plan);
  const Graph model = rank_model_of(plan);
  const Slicing slicing = slice(plan, model, analyse(model));
  if (options.stage) return stage_text(options.path, plan, model, slicing, *options.stage);
  std::string missing;
  const std::optional<Costs> costs = costs_of(plan, model, slicing, missing);
  if (!costs) fmt::print(stderr, "penstock show: without times and memory: {}\n", missing);
  return plan_text(options.path, plan, model, slicing, costs ? &*costs : nullptr, style);
}

std::string show_profile(const ShowOptions& options, ReportStyle style) {
  const Profile profile = read_profile(options.path);
  if (options.layers) return profile_layers(profile, read_model(profile.job));
  const int top = style.verbose ? most_expensive : 0;
  std::optional<Graph> model;
  try {
    model = read_model(profile.job);
  } catch (const InputError& error) {
    fmt::print(stderr, "penstock show: without the step on one device: {}\n", error.what());
  }
  return fmt::format("{}\n\n{}", options.path,
                     profile_report(profile, model ? &*model : nullptr, top, style.columns));
}

template <std::string (*text)(const std::string&, ReportStyle)>
std::string show_path(const ShowOptions& options, ReportStyle style) {
  return text(options.path, style);
}

struct Shown {
  FileKind kind;
  std::string (*text)(const ShowOptions&, ReportStyle);
  /// Commands that take such a file; `{}` is its path.
  std::vector<const char*> next;
};

const std::vector<Shown> shown_files = {
    {FileKind::model,
     show_model,
     {"write a job that names it (docs/files.md), then: penstock profile job.yaml -o "
      "profile.json"}},
    {FileKind::job, show_path<job_text>, {"penstock profile {} -o profile.json"}},
    {FileKind::profile, show_profile, {"penstock plan {} --ranks 2 -o plan.yaml"}},
    {FileKind::layers, show_path<layers_text>, {"penstock plan {} --ranks 8 -o plan.yaml"}},
    {FileKind::plan,
     show_plan,
     {"penstock simulate {} --html timeline.html", "penstock execute {} --trace measured.json"}},
    {FileKind::cluster,
     show_path<cluster_text>,
     {"penstock plan profile.json --cluster {} -o plan.yaml",
      "penstock simulate plan.yaml --cluster {}"}},
    {FileKind::device,
     show_path<device_text>,
     {"penstock profile job.yaml --device estimate --spec {} -o profile.json"}},
    {FileKind::checkpoint,
     show_path<checkpoint_text>,
     {"penstock execute plan.yaml --resume {}",
      "penstock export plan.yaml --format state-dict --checkpoint {} -o weights.safetensors"}},
    {FileKind::trace, show_path<trace_text>, {"penstock compare predicted.json measured.json"}},
    {FileKind::program,
     show_path<program_text>,
     {"penstock simulate --program {} --forward 1ms --backward 2ms"}},
    {FileKind::safetensors, show_path<safetensors_text>, {}},
};

}  // namespace

std::vector<FileKind> shown_kinds() {
  std::vector<FileKind> kinds;
  for (const Shown& one : shown_files) kinds.push_back(one.kind);
  return kinds;
}

int show(const ShowOptions& options) {
  const FileKind kind = file_kind(options.path);
  const auto found = std::ranges::find(shown_files, kind, &Shown::kind);
  if (found == shown_files.end()) {
    throw InputError(options.path, "is of no kind that Penstock knows",
                     "Give a MODEL.pt2, or a file that begins with `penstock: job`, `layers`, "
                     "`plan`, `cluster` or `device`; docs/files.md describes them.");
  }
  if (!options.profile.empty() && kind != FileKind::model)
    throw InputError("--profile", "is for models", "A plan names its profile itself.");
  if (options.layers && kind != FileKind::profile)
    throw InputError("--layers", "writes the table of a profile", "Give a PROFILE.json.");
  if (options.stage && kind != FileKind::plan)
    throw InputError("--stage", "is for plans", "Give a PLAN.yaml.");
  fmt::print("{}", found->text(options, {terminal_columns(), options.verbose}));
  if (options.layers || options.stage) return 0;  // the output is all that was asked for
  std::vector<std::string> next;
  for (const char* command : found->next)
    next.push_back(fmt::format(fmt::runtime(command), in_shell(options.path)));
  if (!next.empty()) fmt::print("\n{}", ending({}, next));
  return 0;
}

}  // namespace penstock::cli
