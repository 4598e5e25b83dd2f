// torch.distributed.pipelining's pipeline() cuts where a module's forward begins, at every call.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "graph/cuts/cuts.hpp"
#include "pipeline/exports/export_checks.hpp"
#include "pipeline/exports/module_cuts.hpp"

namespace penstock {

namespace {

/// Modules that are called more than once.
std::set<std::string> repeated_modules(const Graph& model) {
  std::set<std::string> repeated;
  for (const Operator& op : model.operators) {
    for (const std::string& call : op.modules) {
      if (module_of_call(call) != call) repeated.insert(module_of_call(call));
    }
  }
  return repeated;
}

void require_no_recomputation(const Plan& plan) {
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    if (!plan.stages[stage].recompute.any()) continue;
    throw InputError(
        fmt::format("{}: stages[{}].recompute", export_place(plan), stage),
        fmt::format("stage {} recomputes, and torch's split points do not say so", stage),
        "Write `recompute: false`, and wrap the modules of the stage in "
        "torch.utils.checkpoint yourself.");
  }
}

/// Values that torch 2.11 does not send: those without gradient, inputs of the model, which the
/// first stage alone is given, and, with several stages on a rank, values for another than the next
/// stage: two ranks tell their messages apart by their order alone.
std::string why_not_sent(const Plan& plan, const Value& value, size_t from, size_t to) {
  if (value.kind == Value::Kind::user_input)
    return "an input of the model, which torch gives to stage 0 alone";
  if (!is_floating(value.dtype))
    return fmt::format("{} of stage {}; torch sends floating point alone", name(value.dtype), from);
  const bool several = static_cast<int>(plan.stages.size()) > plan.ranks();
  if (several && to != from + 1)
    return fmt::format("of stage {}; with several stages on a rank torch sends to the next alone",
                       from);
  return "";
}

/// torch sends everything that a stage computes and a later one reads, constants as well. `starts`
/// are the stages' first operators.
void require_sendable(const ExportSource& source, const std::vector<OperatorId>& starts) {
  const auto stage_at = [&](OperatorId id) {
    return static_cast<size_t>(std::ranges::upper_bound(starts, id) - starts.begin()) - 1;
  };
  const Graph& model = source.model;
  for (size_t id = 0; id < model.operators.size(); ++id) {
    const size_t to = stage_at(static_cast<OperatorId>(id));
    for (const ValueId read : model.operators[id].reads()) {
      const Value& value = model.values[static_cast<size_t>(read)];
      const size_t from = value.producer < 0 ? 0 : stage_at(value.producer);
      if (value.kind == Value::Kind::tensor || from == to) continue;
      const std::string why = why_not_sent(source.plan, value, from, to);
      if (why.empty()) continue;
      throw InputError(cut_place(source.plan, to),
                       fmt::format("stage {} reads `{}`, {}", to, value.name, why),
                       "Cut elsewhere, or train with `penstock execute`.");
    }
  }
}

}  // namespace

std::string to_torch_split(const ExportSource& source) {
  const ModuleCuts cuts = module_cuts(source);
  const std::set<std::string> repeated = repeated_modules(source.model);
  std::vector<size_t> allowed;
  for (size_t i = 1; i < cuts.points.size(); ++i) {
    const std::string& call = cuts.points[i].call;
    if (!call.empty() && !repeated.contains(module_of_call(call))) allowed.push_back(i);
  }
  nlohmann::ordered_json points = nlohmann::ordered_json::object();
  std::vector<OperatorId> starts = {0};
  for (size_t stage = 1; stage < cuts.begins.size(); ++stage) {
    const CutPoint& point = cuts.points[cuts.begins[stage]];
    if (!std::ranges::binary_search(allowed, cuts.begins[stage])) {
      refuse_cut(source, cuts, stage, allowed,
                 point.call.empty()
                     ? fmt::format("{}; torch splits where a module begins",
                                   describe_cut(source, cuts, stage))
                     : fmt::format("stage {} begins at `{}`, a module that is called several "
                                   "times; torch would split at every call",
                                   stage, point.call));
    }
    points[point.call] = "BEGINNING";
    starts.push_back(begin_position(source.model, point.call, "torch-split"));
  }
  require_no_recomputation(source.plan);
  require_own_parameters(source, "torch.distributed.pipelining");
  require_sendable(source, starts);
  return points.dump(2) + "\n";
}

}  // namespace penstock
