#include "pipeline/plan/module_names.hpp"

#include <algorithm>
#include <set>

#include "graph/cuts/cuts.hpp"

namespace penstock {

namespace {

constexpr int several = -1;

/// The stage that has all operators of a name, or `several`.
std::map<std::string, int> stage_of_name(const Graph& model, const std::vector<int>& owner) {
  std::map<std::string, int> stage;
  for (size_t op = 0; op < owner.size(); ++op) {
    for (const std::string& name : module_names(model.operators[op])) {
      const auto [found, is_new] = stage.emplace(name, owner[op]);
      if (!is_new && found->second != owner[op]) found->second = several;
    }
  }
  return stage;
}

void name_by_modules(const Graph& model, const std::vector<int>& owner, Plan& plan) {
  const std::map<std::string, int> stage_of = stage_of_name(model, owner);
  std::set<std::string> listed;
  for (size_t op = 0; op < owner.size(); ++op) {
    if (owner[op] == 0) continue;
    const std::vector<std::string> names = module_names(model.operators[op]);
    const auto outermost = std::ranges::find_if(
        names, [&](const std::string& name) { return stage_of.at(name) == owner[op]; });
    if (!listed.insert(*outermost).second) continue;
    plan.stages[static_cast<size_t>(owner[op])].modules.push_back(*outermost);
  }
}

}  // namespace

std::vector<std::string> module_names(const Operator& op) {
  std::set<std::string> named;
  for (const std::string& call : op.modules) named.insert(module_of_call(call));
  std::vector<std::string> names;
  for (const std::string& call : op.modules) {
    const std::string path = module_of_call(call);
    for (size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1)) {
      const auto [container, is_new] = named.insert(path.substr(0, dot));
      if (is_new) names.push_back(*container);
    }
    names.push_back(path);
    if (path != call) names.push_back(call);
  }
  names.push_back("%" + op.name);
  return names;
}

void name_stages(const Graph& model, const std::vector<int>& stage_of_operator, Plan& plan) {
  for (StagePlan& stage : plan.stages) {
    stage.begin.clear();
    stage.modules.clear();
  }
  if (!std::ranges::is_sorted(stage_of_operator)) {
    name_by_modules(model, stage_of_operator, plan);
    return;
  }
  for (size_t stage = 1; stage < plan.stages.size(); ++stage) {
    const auto first = std::ranges::find(stage_of_operator, static_cast<int>(stage));
    const auto position = static_cast<OperatorId>(first - stage_of_operator.begin());
    plan.stages[stage].begin = begin_name(model, position);
  }
}

}  // namespace penstock
