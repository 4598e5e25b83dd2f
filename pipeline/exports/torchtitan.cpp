// TorchTitan gives each stage the children of the model, and those of its lists, that it is told.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "pipeline/exports/export_checks.hpp"
#include "pipeline/exports/group_layouts.hpp"
#include "pipeline/exports/module_cuts.hpp"

namespace penstock {

namespace {

constexpr std::string_view titan = "TorchTitan";

/// With a schedule file TorchTitan places stage s on rank s mod P.
void require_loop_placement(const Plan& plan) {
  const int ranks = plan.ranks();
  const auto stages = static_cast<int>(plan.stages.size());
  for (int stage = 0; stage < stages; ++stage) {
    const int rank = plan.stages[static_cast<size_t>(stage)].rank;
    if (rank == stage % ranks) continue;
    throw InputError(
        fmt::format("{}: stages[{}].rank", export_place(plan), stage),
        fmt::format("stage {} is on rank {}; with a schedule that torch does not have, "
                    "TorchTitan places it on rank {}",
                    stage, rank, stage % ranks),
        fmt::format("Place stages on rank 0 to {} in turn.", ranks - 1));
  }
  if (stages % ranks == 0) return;
  throw InputError(export_place(plan) + ": stages",
                   fmt::format("TorchTitan runs the same number of stages on each rank, not {} on "
                               "{} ranks",
                               stages, ranks),
                   "Plan a multiple.");
}

/// `layers.3`: a child of the model, or of a list of it. Deeper ones TorchTitan does not find.
void require_shallow(const ExportSource& source, const std::string& module) {
  if (std::ranges::count(module, '.') <= 1) return;
  throw InputError(source.model.path,
                   fmt::format("`{}` lies too deep: a part of TorchTitan's has children of the "
                               "model, or of lists that are children",
                               module),
                   "Make its list a child of the model.");
}

using Parts = std::vector<std::vector<std::string>>;

/// All modules that a stage runs, also those that compute constants or parameter-derived values.
Parts modules_of_stages(const ExportSource& source) {
  Parts parts;
  for (const StageSlice& slice : source.slicing.stages) {
    std::vector<std::string>& part = parts.emplace_back();
    for (const OperatorId id : slice.operators) {
      const std::string module = outermost_module(source.model, id);
      if (module.empty() || std::ranges::find(part, module) != part.end()) continue;
      require_shallow(source, module);
      part.push_back(module);
    }
  }
  return parts;
}

void require_whole_modules(const ExportSource& source, const ModuleCuts& cuts) {
  std::vector<size_t> allowed;
  for (size_t i = 1; i < cuts.points.size(); ++i) {
    if (begins_outermost(source.model, cuts.points[i])) allowed.push_back(i);
  }
  for (size_t stage = 1; stage < cuts.begins.size(); ++stage) {
    if (std::ranges::binary_search(allowed, cuts.begins[stage])) continue;
    refuse_cut(source, cuts, stage, allowed,
               fmt::format("{}; TorchTitan gives a stage whole modules",
                           describe_cut(source, cuts, stage)));
  }
}

/// Copies of a module that several stages call would go separate ways; those of one that computes
/// constants alone do no harm.
void require_one_stage_each(const ExportSource& source, const ModuleCuts& cuts) {
  std::map<std::string, int> stage_of;
  for (const CutPoint& point : cuts.points) {
    const std::string module = outermost_module(source.model, point.op);
    const int stage = source.slicing.stage_of_operator[static_cast<size_t>(point.op)];
    const auto [known, added] = stage_of.emplace(module, stage);
    if (added || module.empty() || known->second == stage) continue;
    throw InputError(cut_place(source.plan, static_cast<size_t>(stage)),
                     fmt::format("`{}` is called in stages {} and {}; TorchTitan would give each a "
                                 "copy of its own",
                                 module, known->second, stage),
                     "Keep its calls in one stage.");
  }
}

std::string parts_text(const Parts& parts) {
  std::string text = "[\n";
  for (const std::vector<std::string>& part : parts) {
    std::vector<std::string> quoted;
    quoted.reserve(part.size());
    for (const std::string& module : part) quoted.push_back(nlohmann::json(module).dump());
    text += fmt::format("  [{}],\n", fmt::join(quoted, ", "));
  }
  return text + "]";
}

/// `Shard(0)`, `Shard(0) of each of 3 blocks`; of a layout that is split.
std::string placement(const sharding::Layout& layout) {
  const std::string shard = fmt::format("Shard({})", layout.dimension());
  return layout.blocks() == 1 ? shard
                              : fmt::format("{} of each of {} blocks", shard, layout.blocks());
}

/// Parameters that tensor groups split, by how.
std::map<std::string, std::vector<std::string>> split_parameters(const ExportSource& source) {
  std::map<std::string, std::vector<std::string>> parameters;
  for (size_t i = 0; i < source.model.tensors.size(); ++i) {
    const sharding::Layout& layout = source.completion->tensors[i];
    if (layout.is_split()) parameters[placement(layout)].push_back(source.model.tensors[i].name);
  }
  return parameters;
}

/// How stages hand on what is split.
std::set<std::string> handed_on_placements(const ExportSource& source) {
  std::set<std::string> placements;
  for (const StageEdge& edge : source.slicing.edges) {
    for (const Crossing& crossing : edge.values) {
      const sharding::Layout layout = handed_on(source, crossing.value);
      placements.insert(layout.is_split() ? placement(layout) : "Replicate()");
    }
  }
  return placements;
}

/// TorchTitan takes the degree; what is split is the business of the model's parallelize function.
std::string tensor_parallel_lines(const ExportSource& source) {
  if (!source.completion) return "";
  std::string lines =
      "# The ranks of a tensor group split these parameters, which TorchTitan leaves to the "
      "model's\n"
      "# own parallelize function:\n";
  for (const auto& [how, names] : split_parameters(source)) {
    for (const std::string& name : name_patterns(names))
      lines += fmt::format("#   {}: {}\n", name, how);
  }
  for (const std::string& how : handed_on_placements(source))
    lines += fmt::format("# Between stages values are in {}.\n", how);
  return lines + fmt::format(
                     "tensor_parallel_degree = {}\n"
                     "disable_loss_parallel = true\n",
                     source.plan.tensor_parallel);
}

/// Sharded optimizer state is FSDP that gathers parameters once a step: they and their gradients
/// are then sent as often as with ours.
std::string data_parallel_lines(const Plan& plan) {
  const bool sharded = plan.optimizer_state == OptimizerState::sharded;
  const std::string lines = fmt::format(
      "data_parallel_replicate_degree = {}\n"
      "data_parallel_shard_degree = {}\n",
      sharded ? 1 : plan.data_parallel, sharded ? plan.data_parallel : 1);
  if (!sharded) return lines;
  return "# TorchTitan shards the optimizer's state with the parameters, which are gathered once "
         "a\n"
         "# step:\n" +
         lines + "fsdp_reshard_after_forward = \"never\"\n";
}

std::string schedule_lines(const Plan& plan, const std::string& schedule_file) {
  const std::string_view name = torch_schedule_name(plan);
  if (!name.empty()) return fmt::format("pipeline_parallel_schedule = \"{}\"\n", name);
  require_loop_placement(plan);
  return fmt::format(
      "pipeline_parallel_schedule = \"PipelineScheduleMulti\"\n"
      "pipeline_parallel_schedule_csv = {}\n",
      nlohmann::json(schedule_file).dump());
}

/// Samples that a replica is given at once. With one rank TorchTitan has no pipeline to divide
/// them, and adds up the gradients of such batches.
int64_t local_batch(const Plan& plan) {
  return plan.ranks() == 1 ? plan.microbatch : plan.microbatches * plan.microbatch;
}

}  // namespace

/// Torch's schedules for one stage per rank want a microbatch for each.
std::string_view torch_schedule_name(const Plan& plan) {
  const Schedule* schedule = plan.program.empty() ? schedule_named(plan.schedule) : nullptr;
  if (schedule == nullptr) return "";
  if (schedule->stages_per_rank == 1 && plan.microbatches < plan.ranks()) return "";
  return schedule->tools.torch;
}

std::string to_torchtitan(const ExportSource& source, const std::string& schedule_file) {
  const Plan& plan = source.plan;
  const ModuleCuts cuts = module_cuts(source);
  require_whole_modules(source, cuts);
  require_one_stage_each(source, cuts);
  require_own_parameters(source, titan);
  require_one_value(source, titan);
  require_floating_point(source, titan);
  const bool recompute = all_recompute(plan, titan);
  return fmt::format(
      "[parallelism]\n"
      "pipeline_parallel_degree = {}\n{}"
      "pipeline_parallel_microbatch_size = {}\n"
      "{}{}"
      "module_fqns_per_model_part = {}\n\n"
      "[training]\n"
      "local_batch_size = {}\n"
      "global_batch_size = {}\n\n"
      "[activation_checkpoint]\n"
      "mode = \"{}\"\n",
      plan.ranks(), schedule_lines(plan, schedule_file), plan.microbatch, data_parallel_lines(plan),
      tensor_parallel_lines(source), parts_text(modules_of_stages(source)), local_batch(plan),
      plan.job.global_batch, recompute ? "full" : "none");
}

}  // namespace penstock
