// torch.distributed.pipelining's pipeline() cuts where a module's forward begins, at every call.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "graph/error.hpp"
#include "pipeline/exports/export_checks.hpp"
#include "pipeline/exports/module_cuts.hpp"

namespace penstock {

namespace {

/// Modules that are called more than once.
std::set<std::string> repeated_modules(const Graph& model) {
  std::set<std::string> repeated;
  for (const Operator& op : model.operators) {
    for (const std::string& call : op.modules) {
      if (call.find('@') != call.npos) repeated.insert(module_of_call(call));
    }
  }
  return repeated;
}

void require_no_recomputation(const Plan& plan) {
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    if (!plan.stages[stage].recompute) continue;
    throw InputError(
        fmt::format("{}: stages[{}].recompute", export_place(plan), stage),
        fmt::format("stage {} recomputes, and torch's split points do not say so", stage),
        "Write `recompute: false`, and wrap the modules of the stage in "
        "torch.utils.checkpoint yourself.");
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
  }
  require_no_recomputation(source.plan);
  require_own_parameters(source, "torch.distributed.pipelining");
  // Messages between two ranks arrive in the order in which they were sent: with several stages on a
  // rank torch 2.11 takes those of a skip connection for a neighbour's.
  if (static_cast<int>(source.plan.stages.size()) > source.plan.ranks())
    require_neighbours(source, "torch and several stages on a rank");
  return points.dump(2) + "\n";
}

}  // namespace penstock
