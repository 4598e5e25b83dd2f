#include "planner/layouts/layer_fit.hpp"

#include <algorithm>

namespace penstock {

LayerChoices layer_choices(const OperatorCost& layer) {
  LayerChoices choices;
  for (const RecomputeChoice& choice : layer.recompute)
    choices.push_back({choice.time_s, choice.freed_bytes, choice.working_bytes});
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
      rank.held.push_back(placement.held[stage]);
    }
  }
}

LayerChoices LayerFit::allowed(const Ranked& rank, size_t i, int64_t working_bytes) const {
  LayerChoices choices;
  for (const RecomputeChoice& one : costs(rank.layers[i]).recompute) {
    const bool fits = one.working_bytes <= working_bytes;
    choices.push_back({one.time_s, fits ? one.freed_bytes * rank.held[i] : 0});
  }
  return choices;
}

LayerFit::Freed LayerFit::free(const std::vector<ToFree>& wanted, KnownChoices& known,
                               const std::vector<double>& prices) const {
  Freed freed{{}, std::vector<int>(measured_.operators.size(), -1)};
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const Ranked& of = ranks_[rank];
    std::vector<LayerChoices> choices;
    for (size_t i = 0; i < of.layers.size() && wanted[rank].bytes > 0; ++i) {
      choices.push_back(allowed(of, i, wanted[rank].working_bytes));
      if (prices.empty()) continue;
      for (LayerChoice& choice : choices.back())
        choice.seconds *= prices[static_cast<size_t>(of.stages[i])];
    }
    const ChosenLayers& chosen = known.of(choices, wanted[rank].bytes);
    freed.bytes.push_back(chosen.bytes);
    for (size_t i = 0; i < chosen.choices.size(); ++i)
      freed.choices[static_cast<size_t>(of.layers[i])] = chosen.choices[i];
  }
  return freed;
}

void LayerFit::note(const std::vector<int>& choices, Plan& plan) const {
  for (StagePlan& stage : plan.stages) stage.recompute = {};
  for (const Ranked& of : ranks_) {
    for (size_t i = 0; i < of.layers.size(); ++i) {
      const int choice = choices[static_cast<size_t>(of.layers[i])];
      if (choice < 0) continue;
      const OperatorCost& layer = costs(of.layers[i]);
      const std::string& name = layer.recompute[static_cast<size_t>(choice)].name;
      StagePlan& stage = plan.stages[static_cast<size_t>(of.stages[i])];
      stage.recompute.layers[name].push_back(layer.name);
    }
  }
}

int64_t LayerFit::most(int rank, int64_t working_bytes) const {
  const Ranked& of = ranks_[static_cast<size_t>(rank)];
  int64_t sum = 0;
  for (size_t i = 0; i < of.layers.size(); ++i) {
    int64_t most = 0;
    for (const RecomputeChoice& one : costs(of.layers[i]).recompute)
      if (one.working_bytes <= working_bytes) most = std::max(most, one.freed_bytes * of.held[i]);
    sum += most;
  }
  return sum;
}

std::optional<int64_t> LayerFit::less_working(int rank, int64_t working_bytes) const {
  std::optional<int64_t> largest;
  for (const OperatorId layer : ranks_[static_cast<size_t>(rank)].layers) {
    for (const RecomputeChoice& one : costs(layer).recompute)
      if (one.working_bytes < working_bytes)
        largest = std::max(largest.value_or(0), one.working_bytes);
  }
  return largest;
}

}  // namespace penstock
