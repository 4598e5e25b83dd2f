// Megatron-LM's --pipeline-model-parallel-layout: a letter per piece of the model, E embedding,
// t transformer layer, L final norm, output and loss, stages separated by |, x*n and (…)*n
// repeated. Stage s runs on rank s mod P, under 1F1B, interleaved where a rank has several.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "pipeline/exports/export_checks.hpp"
#include "pipeline/exports/layer_stack.hpp"
#include "pipeline/exports/megatron_groups.hpp"
#include "pipeline/exports/module_cuts.hpp"

namespace penstock {

namespace {

constexpr std::string_view megatron = "Megatron";

/// From this many equal neighbours on they are written as x*n.
constexpr size_t worth_repeating = 3;

/// Transformer layers of each stage.
std::vector<size_t> layers_of_stages(const ExportSource& source, const ModuleCuts& cuts,
                                     const LayerStack& stack) {
  std::vector<size_t> allowed = stack.begins;
  allowed.push_back(stack.end);
  std::vector<size_t> layers;
  for (size_t stage = 0; stage < cuts.begins.size(); ++stage) {
    const size_t begin = stage == 0 ? stack.begins.front() : cuts.begins[stage];
    if (!std::ranges::binary_search(allowed, begin)) {
      refuse_cut(source, cuts, stage, allowed,
                 fmt::format("{}; Megatron cuts before a layer, or after the last",
                             describe_cut(source, cuts, stage)));
    }
    const size_t end = stage + 1 < cuts.begins.size() ? cuts.begins[stage + 1] : stack.end;
    layers.push_back(static_cast<size_t>(std::ranges::count_if(
        stack.begins, [&](size_t layer) { return layer >= begin && layer < end; })));
  }
  return layers;
}

/// `Et`, `t*4`, `ttL`.
std::vector<std::string> stage_letters(const std::vector<size_t>& layers) {
  std::vector<std::string> letters;
  letters.reserve(layers.size());
  for (const size_t count : layers) {
    letters.push_back(count < worth_repeating ? std::string(count, 't')
                                              : fmt::format("t*{}", count));
  }
  letters.front().insert(0, "E");
  letters.back() += "L";
  return letters;
}

/// Stages in a row that are alike are drawn together: `Et|(tt|)*6tL`.
std::string layout_text(const std::vector<std::string>& stages) {
  std::string text;
  for (size_t first = 0; first < stages.size();) {
    size_t end = first;
    while (end < stages.size() && stages[end] == stages[first]) ++end;
    const bool last_stage = end == stages.size();
    if (end - first >= worth_repeating) {
      text += fmt::format("({}|)*{}", stages[first], end - first);
    } else {
      for (size_t i = first; i < end; ++i) text += stages[i] + (last_stage ? "" : "|");
    }
    first = end;
  }
  return text;
}

/// Interleaved 1F1B takes so many microbatches of a stage before it turns to the next: all of them
/// in as many equal rounds as the ranks allow, as ours does.
int64_t microbatches_per_round(const Plan& plan) {
  return plan.microbatches / std::max<int64_t>(1, plan.microbatches / plan.ranks());
}

void require_interleaving(const Plan& plan) {
  const auto stages = static_cast<int>(plan.stages.size());
  const std::string place = export_place(plan) + ": schedule";
  if (stages == plan.ranks()) {
    const std::string_view not_interleaved = one_f_one_b.name;
    throw InputError(place,
                     fmt::format("with one stage per rank Megatron runs {}, not {}",
                                 not_interleaved, plan.schedule),
                     fmt::format("Write `schedule: {}`.", not_interleaved));
  }
  if (plan.microbatches < plan.ranks() || plan.ranks() == 1) {
    throw InputError(place,
                     fmt::format("Megatron does not interleave {} microbatches on {} ranks",
                                 plan.microbatches, plan.ranks()),
                     "It needs two ranks, and a microbatch for each of them.");
  }
}

/// The pieces of Megatron's that a stored tensor is used in.
struct UsedIn {
  bool embedding = false, layers = false, output = false;
};

UsedIn used_in(const ExportSource& source, const ModuleCuts& cuts, const LayerStack& stack,
               int tensor) {
  const std::vector<Operator>& operators = source.model.operators;
  const auto first_layer = static_cast<size_t>(cuts.points[stack.begins.front()].op);
  const auto output = static_cast<size_t>(cuts.points[stack.end].op);
  UsedIn used;
  for (size_t id = 0; id < operators.size(); ++id) {
    for (const ValueId read : operators[id].reads()) {
      if (source.model.values[static_cast<size_t>(read)].tensor != tensor) continue;
      (id < first_layer ? used.embedding : id < output ? used.layers : used.output) = true;
    }
  }
  return used;
}

/// Megatron shares the embedding's weight with the output unless told otherwise, and no other
/// weight. Returns whether this model does.
bool ties_output(const ExportSource& source, const ModuleCuts& cuts, const LayerStack& stack) {
  bool ties = false;
  for (size_t tensor = 0; tensor < source.model.tensors.size(); ++tensor) {
    if (!source.model.tensors[tensor].requires_grad) continue;
    const UsedIn used = used_in(source, cuts, stack, static_cast<int>(tensor));
    ties |= used.embedding && used.output;
  }
  for (const Slicing::Shared& shared : source.slicing.shared) {
    if (used_in(source, cuts, stack, shared.tensor).layers)
      require_own_parameters(source, megatron);
  }
  return ties;
}

/// A stage is recomputed in equal chunks of layers, of which only the inputs are kept.
std::string recompute_arguments(const std::vector<size_t>& layers) {
  const size_t chunk = std::accumulate(layers.begin(), layers.end(), size_t{0},
                                       [](auto a, auto b) { return std::gcd(a, b); });
  return fmt::format(
      " --recompute-granularity full --recompute-method uniform --recompute-num-layers {}", chunk);
}

}  // namespace

std::string to_megatron(const ExportSource& source) {
  const Plan& plan = source.plan;
  const bool interleaved =
      require_schedule(plan, megatron, &Schedule::ToolNames::megatron).stages_per_rank != 1;
  if (interleaved) require_interleaving(plan);
  const ModuleCuts cuts = module_cuts(source);
  const LayerStack stack = layer_stack(source, cuts, megatron);
  const std::vector<size_t> layers = layers_of_stages(source, cuts, stack);
  require_one_value(source, megatron);
  require_replicated(source, megatron);
  const bool tied = ties_output(source, cuts, stack);
  std::string line = fmt::format(
      "--pipeline-model-parallel-size {} --pipeline-model-parallel-layout '{}' --num-layers {}",
      plan.ranks(), layout_text(stage_letters(layers)), stack.begins.size());
  if (source.completion) line += tensor_parallel_arguments(source, cuts, stack);
  if (interleaved && microbatches_per_round(plan) != plan.ranks()) {
    line += fmt::format(" --microbatch-group-size-per-virtual-pipeline-stage {}",
                        microbatches_per_round(plan));
  }
  line += fmt::format(" --micro-batch-size {} --global-batch-size {}", plan.microbatch,
                      plan.job.global_batch);
  if (all_recompute(plan, megatron)) line += recompute_arguments(layers);
  if (plan.optimizer_state == OptimizerState::sharded) line += " --use-distributed-optimizer";
  if (!tied) line += " --untie-embeddings-and-output-weights";
  return line + "\n";
}

}  // namespace penstock
