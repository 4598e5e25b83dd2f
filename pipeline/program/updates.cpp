// Adds what ends a training step: gradient sums and optimizer steps.
#include <algorithm>
#include <map>
#include <set>

#include "pipeline/program/flow_table.hpp"

namespace penstock {

namespace {

/// The index after which each stage of the rank has its weight gradients: that of its last B or W,
/// or of the SENDs that directly follow it.
std::map<int, size_t> last_backwards(const std::vector<Action>& actions) {
  std::map<int, size_t> last;
  for (size_t i = 0; i < actions.size(); ++i) {
    for_each_part(actions[i], [&](const Action& part) {
      const bool gives_weights = part.kind == Kind::backward || part.kind == Kind::backward_weight;
      if (gives_weights) last[part.stage] = i;
    });
  }
  for (auto& [stage, index] : last) {
    while (index + 1 < actions.size() && is_send(actions[index + 1].kind)) ++index;
  }
  return last;
}

/// Stages of the rank that already have an action of that kind.
std::set<int> stages_with(const std::vector<Action>& actions, Kind kind) {
  std::set<int> stages;
  for (const Action& action : actions) {
    if (action.kind == kind) stages.insert(action.stage);
  }
  return stages;
}

/// The rank's actions, each wanted stage with a REDUCE_GRAD after its last backward.
std::vector<Action> with_reductions(const std::vector<Action>& actions, std::set<int> wanted) {
  for (const int stage : stages_with(actions, Kind::reduce_grad)) wanted.erase(stage);
  std::map<size_t, int> stage_after;
  for (const auto& [stage, index] : last_backwards(actions)) {
    if (wanted.contains(stage)) stage_after[index] = stage;
  }
  std::vector<Action> result;
  for (size_t i = 0; i < actions.size(); ++i) {
    result.push_back(actions[i]);
    const auto reduced = stage_after.find(i);
    if (reduced != stage_after.end()) result.push_back({reduced->second, Kind::reduce_grad});
  }
  return result;
}

}  // namespace

Program add_updates(Program program, const LoweringOptions& options) {
  const std::set<int> reduced(options.reduce_stages.begin(), options.reduce_stages.end());
  for (std::vector<Action>& actions : program.ranks) {
    if (!reduced.empty()) actions = with_reductions(actions, reduced);
  }
  if (!options.optimizer) return program;
  std::vector<std::set<int>> stepped;
  for (const std::vector<Action>& actions : program.ranks) {
    stepped.push_back(stages_with(actions, Kind::optimizer));
  }
  for (int stage = 0; stage < program.stage_count(); ++stage) {
    const auto rank = static_cast<size_t>(program.rank_of_stage[static_cast<size_t>(stage)]);
    if (!stepped[rank].contains(stage)) program.ranks[rank].push_back({stage, Kind::optimizer});
  }
  return program;
}

}  // namespace penstock
