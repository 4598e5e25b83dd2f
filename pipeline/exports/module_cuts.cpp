#include "pipeline/exports/module_cuts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"

namespace penstock {

namespace {

std::vector<CutPoint> cut_points(const Graph& model, const Analysis& analysis) {
  std::vector<CutPoint> points;
  std::set<std::string_view> begun;
  for (size_t id = 0; id < model.operators.size(); ++id) {
    const Operator& op = model.operators[id];
    if (is_recomputed(op, analysis)) continue;
    CutPoint& point = points.emplace_back(CutPoint{static_cast<OperatorId>(id), ""});
    for (const std::string& call : op.modules) {
      if (begun.insert(call).second && point.call.empty()) point.call = call;
    }
  }
  return points;
}

[[noreturn]] void refuse_scattered(const ExportSource& source, size_t stage) {
  throw InputError(
      cut_place(source.plan, stage),
      fmt::format("stage {} is not one stretch of the model, and other tools know no "
                  "other stages",
                  stage),
      "Plan with --contiguous, or give every stage a `begin`, in the order of the model.");
}

/// How a plan may name the point.
const std::string& point_name(const ExportSource& source, const CutPoint& point) {
  return point.call.empty() ? source.model.operators[static_cast<size_t>(point.op)].name
                            : point.call;
}

}  // namespace

std::string cut_place(const Plan& plan, size_t stage) {
  return fmt::format("{}: stages[{}].{}", plan.path.empty() ? "plan" : plan.path, stage,
                     plan.stages[stage].modules.empty() ? "begin" : "modules");
}

ModuleCuts module_cuts(const ExportSource& source) {
  ModuleCuts cuts{cut_points(source.model, source.analysis), {}};
  const size_t stages = source.plan.stages.size();
  for (size_t i = 0; i < cuts.points.size(); ++i) {
    const auto id = static_cast<size_t>(cuts.points[i].op);
    const auto stage = static_cast<size_t>(source.slicing.stage_of_operator[id]);
    if (stage == cuts.begins.size()) {
      cuts.begins.push_back(i);
    } else if (stage + 1 != cuts.begins.size()) {
      refuse_scattered(source, stage);
    }
  }
  if (cuts.begins.size() < stages) refuse_scattered(source, cuts.begins.size());
  return cuts;
}

std::string outermost_module(const Graph& model, OperatorId id) {
  const Operator& op = model.operators[static_cast<size_t>(id)];
  return op.modules.empty() ? "" : module_of_call(op.modules.front());
}

bool begins_outermost(const Graph& model, const CutPoint& point) {
  const Operator& op = model.operators[static_cast<size_t>(point.op)];
  return !point.call.empty() && point.call == op.modules.front();
}

std::string describe_cut(const ExportSource& source, const ModuleCuts& cuts, size_t stage) {
  const CutPoint& point = cuts.points[cuts.begins[stage]];
  const Operator& op = source.model.operators[static_cast<size_t>(point.op)];
  const bool inside = !op.modules.empty() && op.modules.front() != point.call;
  return fmt::format("stage {} begins at `{}`, {}", stage, point_name(source, point),
                     inside               ? fmt::format("inside `{}`", op.modules.front())
                     : op.modules.empty() ? "an operator outside all modules"
                                          : "a module");
}

void refuse_cut(const ExportSource& source, const ModuleCuts& cuts, size_t stage,
                const std::vector<size_t>& allowed, std::string_view why) {
  const auto name = [&](size_t point) {
    return fmt::format("`{}`", point_name(source, cuts.points[point]));
  };
  const auto above = std::ranges::upper_bound(allowed, cuts.begins[stage]);
  std::string choices;
  if (above != allowed.begin()) choices = name(*(above - 1));
  if (above != allowed.end()) choices += (choices.empty() ? "" : " or ") + name(*above);
  throw InputError(cut_place(source.plan, stage), why,
                   choices.empty() ? "No other cut of this model would do either."
                                   : fmt::format("Begin stage {} at {}.", stage, choices));
}

}  // namespace penstock
