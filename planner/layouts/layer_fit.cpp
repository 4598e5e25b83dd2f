#include "planner/layouts/layer_fit.hpp"

#include <algorithm>

namespace penstock {

LayerChoices layer_choices(const OperatorCost& layer) {
  LayerChoices choices;
  for (const RecomputeChoice& choice : layer.recompute)
    choices.push_back({choice.time_s, choice.freed_bytes});
  return choices;
}

LayerFit::LayerFit(const MicrobatchCosts& measured, const Placement& placement,
                   const Slicing& slicing)
    : measured_(measured), ranks_(static_cast<size_t>(placement.ranks)) {
  for (size_t stage = 0; stage < slicing.stages.size(); ++stage) {
    Ranked& rank = ranks_[static_cast<size_t>(placement.rank_of_stage[stage])];
    for (const OperatorId layer : slicing.stages[stage].operators) {
      rank.layers.push_back(layer);
      rank.stages.push_back(static_cast<int>(stage));
      rank.choices.push_back(layer_choices(measured.operators[static_cast<size_t>(layer)]));
      for (LayerChoice& choice : rank.choices.back()) choice.bytes *= placement.held[stage];
    }
  }
}

std::vector<int64_t> LayerFit::free(const std::vector<int64_t>& bytes, Plan& plan) const {
  for (StagePlan& stage : plan.stages) stage.recompute = {};
  std::vector<int64_t> freed;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const Ranked& of = ranks_[rank];
    const ChosenLayers chosen = choose_layers(of.choices, bytes[rank]);
    freed.push_back(chosen.bytes);
    for (size_t i = 0; i < of.layers.size(); ++i) {
      if (chosen.choices[i] < 0) continue;
      const OperatorCost& layer = measured_.operators[static_cast<size_t>(of.layers[i])];
      const std::string& name = layer.recompute[static_cast<size_t>(chosen.choices[i])].name;
      plan.stages[static_cast<size_t>(of.stages[i])].recompute.layers[name].push_back(layer.name);
    }
  }
  return freed;
}

int64_t LayerFit::most(int rank) const {
  int64_t sum = 0;
  for (const LayerChoices& choices : ranks_[static_cast<size_t>(rank)].choices) {
    int64_t most = 0;
    for (const LayerChoice& choice : choices) most = std::max(most, choice.bytes);
    sum += most;
  }
  return sum;
}

}  // namespace penstock
