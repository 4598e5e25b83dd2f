// Where a plan cuts the model, as tools see it that cut between modules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline/exports/exports.hpp"

namespace penstock {

/// An operator at which a stage could begin.
struct CutPoint {
  OperatorId op;
  std::string call;  // the outermost module call that begins with it; "" where none does
};

/// The operators that stages own, in order; constants and parameter-derived values are not theirs,
/// they are computed wherever they are used.
struct ModuleCuts {
  std::vector<CutPoint> points;
  std::vector<size_t> begins;  // of each stage: its first point
};

/// Throws InputError where a stage is not one stretch of the model.
ModuleCuts module_cuts(const ExportSource& source);

/// The outermost module that an operator runs in; "" outside all modules.
std::string outermost_module(const Graph& model, OperatorId id);

/// Whether an outermost module begins at the point.
bool begins_outermost(const Graph& model, const CutPoint& point);

/// `plan.yaml: stages[2].begin`
std::string cut_place(const Plan& plan, size_t stage);

/// Throws InputError: `why`, and as the cure the nearest of the points where `stage` may begin.
[[noreturn]] void refuse_cut(const ExportSource& source, const ModuleCuts& cuts, size_t stage,
                             const std::vector<size_t>& allowed, std::string_view why);

/// `begins at `layers.3.linear2`, inside `layers.3``: the stage's cut, for messages.
std::string describe_cut(const ExportSource& source, const ModuleCuts& cuts, size_t stage);

}  // namespace penstock
