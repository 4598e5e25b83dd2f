// `penstock export`: a plan for other tools.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/quantity.hpp"
#include "cli/command_line/commands.hpp"
#include "cli/files/given_paths.hpp"
#include "cli/inputs/costed_model.hpp"
#include "cli/inputs/plan_inputs.hpp"
#include "cli/report/ending.hpp"
#include "cli/report/table.hpp"
#include "cli/report/terminal.hpp"
#include "cli/workers/launch.hpp"
#include "cli/workers/workers.hpp"
#include "graph/analysis/analysis.hpp"
#include "launch/state_dict_task.hpp"
#include "pipeline/checkpoint/state_dict.hpp"
#include "pipeline/exports/exports.hpp"
#include "pipeline/job/parameters.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/program/torch_csv.hpp"
#include "pipeline/sharding/group_completion.hpp"

namespace penstock::cli {

namespace {

constexpr const char* lowered_version = "2.11";

/// The file to write, and what the report says beyond that.
struct Exported {
  std::string text;
  std::string schedule_file, schedule;  // a file beside it, "" where none is needed
  std::string note;
  std::string line = {};  // to be copied from the terminal
};

struct Format {
  const char* name;
  const char* description;
  /// Null for weights, which are no text.
  Exported (*make)(const ExportSource&, const Program& compute, const ExportOptions&);
  bool takes_layers = false;  // of a table, without a model
  bool takes_groups = false;  // of ranks that split operators
};

Exported torch_csv(const ExportSource& source, const Program& compute,
                   const ExportOptions& options) {
  if (options.lowered.empty()) return {.text = to_torch_compute_csv(compute)};
  return {.text = to_torch_lowered_csv(compute, flows(source.slicing), source.plan.path),
          .note = ", lowered for torch " + options.lowered};
}

Exported torch_split(const ExportSource& source, const Program&, const ExportOptions&) {
  return {.text = to_torch_split(source)};
}

Exported torchtitan(const ExportSource& source, const Program& compute,
                    const ExportOptions& options) {
  if (!torch_schedule_name(source.plan).empty()) return {.text = to_torchtitan(source, "")};
  const std::string file =
      std::filesystem::absolute(options.output).replace_extension(".csv").string();
  if (std::filesystem::is_other(options.output)) {
    throw InputError("-o", "torch has no such schedule: it goes into a file beside the output",
                     "Give the output a name in a folder.");
  }
  if (file == std::filesystem::absolute(options.output)) {
    throw InputError("-o", fmt::format("{} is where the schedule goes, in a file of its own", file),
                     "Give the output another name, like pipeline.toml.");
  }
  check_paths("export", {{"PLAN.yaml", PathUse::input, options.plan},
                         {"the schedule beside -o,", PathUse::output_file, file}});
  return {.text = to_torchtitan(source, file),
          .schedule_file = file,
          .schedule = to_torch_compute_csv(compute),
          .note = "; torch has no such schedule: it is in a file of its own"};
}

Exported megatron(const ExportSource& source, const Program&, const ExportOptions&) {
  const std::string line = to_megatron(source);
  const bool chosen = std::ranges::any_of(
      source.plan.stages, [](const StagePlan& stage) { return !stage.recompute.layers.empty(); });
  std::string note = chosen ? "; without the recompute of single layers: Megatron recomputes alike "
                              "in all stages"
                            : "";
  if (const std::vector<std::string> unlike = unlike_megatron(source); !unlike.empty())
    note += fmt::format("; without the plan's layouts of {}: Megatron splits them in its own way",
                        fmt::join(unlike, ", "));
  return {.text = line, .note = std::move(note), .line = line};
}

Exported deepspeed(const ExportSource& source, const Program&, const ExportOptions&) {
  return {.text = to_deepspeed(source)};
}

constexpr const char* state_dict = "state-dict";

constexpr Format formats[] = {
    {"torch-csv", "the schedule, as torch.distributed.pipelining's runtime loads it", torch_csv,
     true, true},
    {"torch-split", "the split points for its pipeline(), as JSON", torch_split, false, true},
    {"torchtitan", "modules of each stage, schedule and degrees for TorchTitan, as TOML",
     torchtitan, false, true},
    {"megatron", "layout and batch sizes as a line of arguments for Megatron-LM", megatron, true,
     true},
    {"deepspeed", "layers, parts and batch sizes for DeepSpeed's PipelineModule, as JSON",
     deepspeed},
    {state_dict, "trained weights as the module's own state_dict(), as .safetensors", nullptr},
};

const Format& find_format(const std::string& name) {
  std::vector<std::string> names;
  for (const Format& format : formats) {
    if (format.name == name) return format;
    names.emplace_back(format.name);
  }
  throw InputError(
      "--format", fmt::format("there is no format `{}`", name),
      fmt::format("Formats: {}. {}", fmt::join(names, ", "), did_you_mean(name, names)));
}

/// Other tools' schedules have backwards.
void check_trains(const Plan& plan, const Format& format) {
  if (!plan.job.forward_only || format.make == nullptr) return;
  throw InputError(plan.path,
                   fmt::format("is a plan for inference, and {} is of training", format.name),
                   "Plan without --forward-only.");
}

void check_checkpoint(const ExportOptions& options) {
  if (options.checkpoint.empty() || options.format == state_dict) return;
  throw InputError("--checkpoint", fmt::format("{} has no weights", options.format),
                   fmt::format("Leave it out; it is for {}.", state_dict));
}

void check_lowered(const ExportOptions& options) {
  if (options.lowered.empty()) return;
  if (options.format != "torch-csv") {
    throw InputError("--lowered", fmt::format("{} has no lowered form", options.format),
                     "Leave it out; it is for torch-csv.");
  }
  if (options.lowered == lowered_version) return;
  throw InputError("--lowered",
                   fmt::format("the lowered format of torch {} is not known", options.lowered),
                   fmt::format("Give {}, or leave it out: the compute-only format is the same in "
                               "every version, and torch lowers it itself.",
                               lowered_version));
}

/// A worker does it: only LibTorch draws as modules do. Fills in how many names it wrote.
std::optional<WorkersFailure> write_in_worker(const StateDictTask& task, int64_t& names) {
  Workers worker(make_tasks({.rank_of_process = as_numbered(1),
                             .command = "state_dict",
                             .arguments = nlohmann::json(task)}),
                 [](int, int) { return std::string(); });
  return worker.run([&](size_t, const nlohmann::json& event) {
    if (event.at("event") == "written") names = event.at("names").get<int64_t>();
  });
}

int export_weights(const Plan& plan, const Graph& model, const ExportOptions& options) {
  std::optional<IntactCheckpoint> checkpoint;
  if (!options.checkpoint.empty()) checkpoint = require_intact(options.checkpoint);
  if (checkpoint)
    for (const std::string& warning : checkpoint->warnings) fmt::print(stderr, "{}\n", warning);
  const StateDict weights(plan, model, checkpoint);
  int64_t names = 0;
  if (weights.initialised().empty()) {
    names = weights.write(options.output);
  } else {
    check_no_standard_output("-o", options.output);
    const StateDictTask task{plan.path, checkpoint ? checkpoint->path.string() : "",
                             options.output};
    if (const auto failure = write_in_worker(task, names)) {
      fmt::print(stderr, "penstock: {}\n", failure->message);
      return failure->status;
    }
  }
  const std::string of = checkpoint ? "of " + checkpoint->path.string()
                                    : "as the model was exported (--checkpoint names trained ones)";
  fmt::print("{}{}", labelled("exported", fmt::format("{} tensors {}", names, of)),
             ending({options.output}, {}));
  return 0;
}

/// How the plan's tensor groups hold the model; nothing where it has none.
std::optional<sharding::Completion> completion_of(const Plan& plan, const Graph& model,
                                                  const Format& format) {
  if (plan.tensor_parallel == 1) return std::nullopt;
  if (!format.takes_groups)
    throw InputError(plan.path,
                     fmt::format("tensor_parallel cannot be exported to {}, which leaves it to "
                                 "Megatron",
                                 format.name),
                     "Export to megatron or torchtitan; torch-csv and torch-split take the "
                     "pipeline, state-dict its checkpoints.");
  return group_completion(model, plan.job.loss, plan.sharding, plan.microbatch,
                          static_cast<int>(plan.tensor_parallel));
}

}  // namespace

std::string export_formats() {
  std::string text;
  for (const Format& format : formats) {
    text += fmt::format("  {:<12}  {}\n", format.name, format.description);
  }
  return text;
}

int export_plan(const ExportOptions& options) {
  const Format& format = find_format(options.format);
  check_lowered(options);
  check_checkpoint(options);
  Plan plan = read_plan(options.plan);
  check_trains(plan, format);
  plan.job.forward_only = false;  // weights are the same
  if (!format.takes_layers) require_model(plan, format.name);
  const Graph model = model_of(plan);
  check_fingerprint(plan, model);
  if (format.make == nullptr) return export_weights(plan, model, options);
  const std::optional<sharding::Completion> completion = completion_of(plan, model, format);
  const Analysis analysis = analyse(model);
  const Slicing slicing = slice(plan, model, analysis);
  make_adaptive(plan, model, slicing, CudaGraphs::never);  // which the other tools have not
  const Program compute = compute_program(plan, flows(slicing));
  const Exported exported = format.make(
      {plan, model, analysis, slicing, completion ? &*completion : nullptr}, compute, options);
  if (!exported.schedule_file.empty()) write_file(exported.schedule_file, exported.schedule);
  write_file(options.output, exported.text);
  fmt::print("{}{}{}",
             labelled("exported",
                      fmt::format("{}, {}, {}{}", format_number(compute.rank_count(), "rank"),
                                  format_number(compute.stage_count(), "stage"),
                                  format_number(compute.microbatches, "microbatch"), exported.note),
                      terminal_columns()),
             exported.line, ending({options.output, exported.schedule_file}, {}));
  return 0;
}

}  // namespace penstock::cli
