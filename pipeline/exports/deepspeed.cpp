// DeepSpeed's PipelineModule runs a list of layers, each on what the one before it returned, and
// gives each rank a stretch of the list, under 1F1B.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "graph/cuts/cuts.hpp"
#include "pipeline/exports/export_checks.hpp"
#include "pipeline/exports/module_cuts.hpp"

namespace penstock {

namespace {

constexpr std::string_view deepspeed = "DeepSpeed";

/// Why a layer may not begin at each operator: what would have to get there beside the one value.
struct Beyond {
  std::vector<bool> input;    // an input of the model, which only the first layer is given
  std::vector<bool> derived;  // a value derived from parameters of a layer before
};

Beyond beyond(const ExportSource& source) {
  const Graph& model = source.model;
  const size_t count = model.operators.size();
  Beyond result{std::vector<bool>(count), std::vector<bool>(count)};
  const auto mark = [](std::vector<bool>& marks, OperatorId from, size_t to) {
    std::fill(marks.begin() + from + 1, marks.begin() + static_cast<OperatorId>(to) + 1, true);
  };
  for (size_t id = 0; id < count; ++id) {
    for (const ValueId read : model.operators[id].reads()) {
      const Value& value = model.values[static_cast<size_t>(read)];
      if (value.kind == Value::Kind::user_input) mark(result.input, -1, id);
      if (source.analysis.parameter_derived[static_cast<size_t>(read)] && value.producer >= 0)
        mark(result.derived, value.producer, id);
    }
  }
  return result;
}

/// The reason why no layer can begin at the point; "" if one can.
std::string why_no_layer(const ExportSource& source, const CutPoint& point, const Beyond& more) {
  const auto id = static_cast<size_t>(point.op);
  if (!begins_outermost(source.model, point))
    return "; DeepSpeed's layers are whole modules of the model or of its lists";
  if (more.input[id])
    return "; an input of the model is read there or later, and DeepSpeed gives it to the first "
           "layer alone";
  if (more.derived[id]) return "; what a layer before derives from its parameters is used";
  const size_t values = values_at_cut(source.model, source.analysis, point.op).size();
  if (values == 1) return "";
  return fmt::format("; {} values go there, and a layer of DeepSpeed's hands on one", values);
}

/// Points at which a layer begins.
std::vector<size_t> layer_begins(const ExportSource& source, const ModuleCuts& cuts,
                                 const Beyond& more) {
  std::vector<size_t> begins = {0};
  for (size_t i = 1; i < cuts.points.size(); ++i) {
    if (why_no_layer(source, cuts.points[i], more).empty()) begins.push_back(i);
  }
  return begins;
}

/// Modules, and operators outside all modules, of [begin, end).
std::vector<std::string> pieces(const Graph& model, OperatorId begin, OperatorId end) {
  std::vector<std::string> names;
  for (OperatorId id = begin; id < end; ++id) {
    const std::string module = outermost_module(model, id);
    if (module.empty()) {
      names.push_back("%" + model.operators[static_cast<size_t>(id)].name);
    } else if (names.empty() || names.back() != module) {
      names.push_back(module);
    }
  }
  return names;
}

/// The pieces of each layer, constants included where they stand.
nlohmann::ordered_json layer_list(const ExportSource& source, const ModuleCuts& cuts,
                                  const std::vector<size_t>& begins) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (size_t i = 0; i < begins.size(); ++i) {
    const OperatorId begin = i == 0 ? 0 : cuts.points[begins[i]].op;
    const OperatorId end = i + 1 < begins.size()
                               ? cuts.points[begins[i + 1]].op
                               : static_cast<OperatorId>(source.model.operators.size());
    layers.push_back(pieces(source.model, begin, end));
  }
  return layers;
}

/// The layer with which each stage begins, and at the end the number of layers.
std::vector<size_t> part_bounds(const ExportSource& source, const ModuleCuts& cuts,
                                const std::vector<size_t>& layers, const Beyond& more) {
  std::vector<size_t> parts;
  for (size_t stage = 0; stage < cuts.begins.size(); ++stage) {
    const auto layer = std::ranges::lower_bound(layers, cuts.begins[stage]);
    if (layer == layers.end() || *layer != cuts.begins[stage]) {
      refuse_cut(source, cuts, stage, {layers.begin() + 1, layers.end()},
                 describe_cut(source, cuts, stage) +
                     why_no_layer(source, cuts.points[cuts.begins[stage]], more));
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
  require_schedule(plan, deepspeed, &Schedule::ToolNames::deepspeed);
  const ModuleCuts cuts = module_cuts(source);
  const Beyond more = beyond(source);
  const std::vector<size_t> begins = layer_begins(source, cuts, more);
  const std::vector<size_t> parts = part_bounds(source, cuts, begins, more);
  require_own_parameters(source, deepspeed);
  require_floating_point(source, deepspeed);
  const bool recompute = all_recompute(plan, deepspeed);
  nlohmann::ordered_json result = {
      {"layers", layer_list(source, cuts, begins)},
      {"parts", parts},
      {"num_stages", plan.stages.size()},
      {"activation_checkpoint_interval", recompute ? longest_part(parts) : 0},
      {"config",
       {{"train_batch_size", plan.job.global_batch},
        {"train_micro_batch_size_per_gpu", plan.microbatch},
        {"gradient_accumulation_steps", plan.microbatches}}},
  };
  // A reentrant checkpoint has no gradient where all that it is given is tokens.
  if (recompute) result["config"]["pipeline"] = {{"use_reentrant", false}};
  if (plan.optimizer_state == OptimizerState::sharded)
    result["config"]["zero_optimization"] = {{"stage", 1}};
  return result.dump(2) + "\n";
}

}  // namespace penstock
