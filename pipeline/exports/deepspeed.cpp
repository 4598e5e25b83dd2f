// DeepSpeed's PipelineModule runs a list of layers, each on what the one before it returned, and
// gives each rank a stretch of the list, under 1F1B.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "graph/cuts.hpp"
#include "graph/error.hpp"
#include "pipeline/exports/export_checks.hpp"
#include "pipeline/exports/module_cuts.hpp"

namespace penstock {

namespace {

constexpr std::string_view deepspeed = "DeepSpeed";

/// The last operator that reads an input of the model, which only the first layer is given.
OperatorId last_input_reader(const Graph& model) {
  OperatorId last = -1;
  for (size_t id = 0; id < model.operators.size(); ++id) {
    for (const ValueId read : model.operators[id].reads()) {
      if (std::ranges::find(model.inputs, read) != model.inputs.end())
        last = static_cast<OperatorId>(id);
    }
  }
  return last;
}

/// Points at which a layer begins.
std::vector<size_t> layer_begins(const ExportSource& source, const ModuleCuts& cuts) {
  const OperatorId last_reader = last_input_reader(source.model);
  std::vector<size_t> begins = {0};
  for (size_t i = 1; i < cuts.points.size(); ++i) {
    const CutPoint& point = cuts.points[i];
    if (point.op <= last_reader || !begins_outermost(source, point)) continue;
    if (values_at_cut(source.model, source.analysis, point.op).size() == 1) begins.push_back(i);
  }
  return begins;
}

/// Modules, and operators outside all modules, from one point up to another.
std::vector<std::string> pieces(const ExportSource& source, const ModuleCuts& cuts, size_t begin,
                                size_t end) {
  std::vector<std::string> names;
  for (size_t i = begin; i < end; ++i) {
    const std::string module = outermost_module(source, cuts.points[i]);
    if (module.empty()) {
      names.push_back("%" + source.model.operators[static_cast<size_t>(cuts.points[i].op)].name);
    } else if (names.empty() || names.back() != module) {
      names.push_back(module);
    }
  }
  return names;
}

std::string why_no_layer(const ExportSource& source, const ModuleCuts& cuts, size_t stage) {
  const CutPoint& point = cuts.points[cuts.begins[stage]];
  const std::string where = describe_cut(source, cuts, stage);
  if (!begins_outermost(source, point)) {
    return where + "; DeepSpeed's layers are whole modules of the model or of its lists";
  }
  if (point.op <= last_input_reader(source.model)) {
    return where +
           ", and an input of the model is read there or later; with DeepSpeed only the "
           "first layer is given it";
  }
  return fmt::format("{} to which {} values go; a layer of DeepSpeed's hands on one", where,
                     values_at_cut(source.model, source.analysis, point.op).size());
}

/// The layer with which each stage begins, and at the end the number of layers.
std::vector<size_t> part_bounds(const ExportSource& source, const ModuleCuts& cuts,
                                const std::vector<size_t>& layers) {
  std::vector<size_t> parts;
  for (size_t stage = 0; stage < cuts.begins.size(); ++stage) {
    const auto layer = std::ranges::lower_bound(layers, cuts.begins[stage]);
    if (layer == layers.end() || *layer != cuts.begins[stage]) {
      refuse_cut(source, cuts, stage, {layers.begin() + 1, layers.end()},
                 why_no_layer(source, cuts, stage));
    }
    parts.push_back(static_cast<size_t>(layer - layers.begin()));
  }
  parts.push_back(layers.size());
  return parts;
}

/// A stage that recomputes keeps its input alone: it is one stretch of this many layers, or less.
size_t longest_part(const std::vector<size_t>& parts) {
  size_t longest = 0;
  for (size_t i = 1; i < parts.size(); ++i) longest = std::max(longest, parts[i] - parts[i - 1]);
  return longest;
}

}  // namespace

std::string to_deepspeed(const ExportSource& source) {
  const Plan& plan = source.plan;
  require_schedule(plan, deepspeed, {"1f1b"});
  const ModuleCuts cuts = module_cuts(source);
  const std::vector<size_t> begins = layer_begins(source, cuts);
  const std::vector<size_t> parts = part_bounds(source, cuts, begins);
  require_own_parameters(source, deepspeed);
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (size_t i = 0; i < begins.size(); ++i) {
    layers.push_back(pieces(source, cuts, begins[i],
                            i + 1 < begins.size() ? begins[i + 1] : cuts.points.size()));
  }
  const nlohmann::ordered_json result = {
      {"layers", layers},
      {"parts", parts},
      {"num_stages", plan.stages.size()},
      {"activation_checkpoint_interval", all_recompute(plan, deepspeed) ? longest_part(parts) : 0},
      {"config",
       {{"train_batch_size", plan.job.global_batch},
        {"train_micro_batch_size_per_gpu", plan.microbatch},
        {"gradient_accumulation_steps", plan.microbatches}}},
  };
  return result.dump(2) + "\n";
}

}  // namespace penstock
