#include "simulator/noise/step_noise.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "simulator/costs/plan_costs.hpp"

namespace penstock {

namespace {

/// An action of a unit in the profile, and how often a round runs it: F before B and before I.
struct ProfiledAction {
  Measured ActionTimes::*times;
  double ActionSeconds::*sent;
  Factors ActionJitter::*jitter;
  double StageCosts::*stage_s;
  double per_round;
};
constexpr ProfiledAction profiled[] = {
    {&ActionTimes::forward, &ActionSeconds::forward, &ActionJitter::forward, &StageCosts::forward_s,
     2},
    {&ActionTimes::backward, &ActionSeconds::backward, &ActionJitter::backward,
     &StageCosts::backward_s, 1},
    {&ActionTimes::backward_input, &ActionSeconds::backward_input, &ActionJitter::backward_input,
     &StageCosts::backward_input_s, 1},
    {&ActionTimes::backward_weight, &ActionSeconds::backward_weight, &ActionJitter::backward_weight,
     &StageCosts::backward_weight_s, 1}};
constexpr size_t forward = 0, weight = 3;

/// A median absolute deviation of normal errors by which their standard deviation is larger.
constexpr double deviation_of_median = 1.4826;

/// Seconds of an operator's messages to the other parts of its tensor group.
double sent_s(const MicrobatchCosts& costs, size_t id, const ProfiledAction& action) {
  return costs.sent.empty() ? 0 : costs.sent[id].*action.sent;
}

/// Seconds of a unit as they were measured, which sends nothing then.
double measured_s(const MicrobatchCosts& costs, const UnitCost& unit,
                  const ProfiledAction& action) {
  double seconds = (unit.times.*action.times).mean_s;
  for (int id = unit.begin; id < unit.end; ++id)
    seconds -= sent_s(costs, static_cast<size_t>(id), action);
  return seconds;
}

/// The variance that jitter alone gives to a round of all units.
double jitter_variance(const MicrobatchCosts& costs) {
  double sum_s = 0, squares = 0;
  for (const UnitCost& unit : costs.units) {
    for (const ProfiledAction& action : profiled) {
      const double seconds = measured_s(costs, unit, action);
      sum_s += action.per_round * seconds;
      squares +=
          action.per_round * seconds * seconds * variance(of_mean_one(unit.jitter.*action.jitter));
    }
  }
  return sum_s > 0 ? squares / (sum_s * sum_s) : 0;
}

/// The relative standard error of a mean over all rounds, a mean over the ranks.
double round_error(const std::vector<Factors>& rounds) {
  Factors mean(rounds.front().size(), 0);
  for (const Factors& rank : rounds) {
    for (size_t i = 0; i < mean.size(); ++i)
      mean[i] += rank[i] / static_cast<double>(rounds.size());
  }
  return std::sqrt(variance(mean) / static_cast<double>(mean.size() - 1));
}

/// The nearest size that knows noise, among those that were divided into the same units.
const MicrobatchCosts* nearest_known(const Profile& profile, int64_t microbatch) {
  const size_t units = profile.at(microbatch)->units.size();
  const MicrobatchCosts* nearest = nullptr;
  const auto distance = [&](const MicrobatchCosts& costs) {
    return std::abs(
        std::log(static_cast<double>(costs.microbatch) / static_cast<double>(microbatch)));
  };
  for (const MicrobatchCosts& costs : profile.microbatches) {
    if (!costs.knows_noise() || costs.units.size() != units) continue;
    if (!nearest || distance(costs) < distance(*nearest)) nearest = &costs;
  }
  return nearest;
}

/// Seconds of each unit's operators in a stage for one action of the profile, by phase and unit,
/// and of what they send between phases.
struct UnitSeconds {
  std::map<std::pair<int, int>, double> own_s;
  double sent_s = 0;
  int phases = 1;
};

UnitSeconds unit_seconds(const StageSlice& slice, const MicrobatchCosts& costs, size_t action) {
  UnitSeconds seconds;
  for (const OperatorId id : slice.operators) {
    const auto unit = std::ranges::upper_bound(costs.units, id, {}, &UnitCost::begin) - 1;
    const ActionTimes& times = costs.operators[static_cast<size_t>(id)].times;
    const double sent = sent_s(costs, static_cast<size_t>(id), profiled[action]);
    seconds.own_s[{seconds.phases - 1, static_cast<int>(unit - costs.units.begin())}] +=
        (times.*profiled[action].times).mean_s - sent;
    seconds.sent_s += sent;
    if (sent > 0) ++seconds.phases;
  }
  if (action == forward && makes_loss(slice)) seconds.sent_s += costs.loss_sent_s;
  return seconds;
}

class NoiseOfStages {
 public:
  NoiseOfStages(const MicrobatchCosts& measured, const MicrobatchCosts& known)
      : measured_(measured), known_(known) {}

  /// Parts of all that the stage computes, in proportion to its operators.
  StageNoise stage(const StageSlice& slice, const StageCosts& costs) const {
    StageNoise noise;
    for (size_t action = 0; action < noise.size(); ++action) {
      const double again_s = action == forward || action == weight ? 0 : costs.recompute_s;
      add(slice, action, costs.*profiled[action].stage_s - again_s, noise[action]);
      if (again_s > 0) add(slice, forward, again_s, noise[action]);
    }
    return noise;
  }

 private:
  void add(const StageSlice& slice, size_t action, double seconds, ActionNoise& noise) const {
    const UnitSeconds units = unit_seconds(slice, measured_, action);
    double sum_s = units.sent_s;
    for (const auto& [at, own_s] : units.own_s) sum_s += own_s;
    if (!(sum_s > 0) || !(seconds > 0)) return;
    const int phase = noise.parts.empty() ? 0 : noise.parts.back().phase + 1;
    for (const auto& [at, own_s] : units.own_s) {
      if (!(own_s > 0)) continue;
      noise.parts.push_back(part(at.second, action, own_s));
      noise.parts.back().seconds = seconds * own_s / sum_s;
      noise.parts.back().phase = phase + at.first;
    }
    noise.sent_s += seconds * units.sent_s / sum_s;
  }

  /// The part of those operators of a unit that take so long.
  NoisePart part(int unit, size_t action, double own_s) const {
    const auto u = static_cast<size_t>(unit);
    NoisePart part{.unit = unit, .action = static_cast<int>(action), .jitter = {}};
    const double known_s = measured_s(known_, known_.units[u], profiled[action]);
    part.jitter =
        stretched(known_.units[u].jitter.*profiled[action].jitter, std::sqrt(known_s / own_s));
    const int each = (measured_.units[u].times.*profiled[action].times).repetitions;
    const double repetitions = std::max(1, each) * static_cast<double>(known_.rounds.size());
    part.error = std::sqrt(variance(part.jitter) / repetitions);
    return part;
  }

  const MicrobatchCosts& measured_;
  const MicrobatchCosts& known_;  // whose distributions they take
};

}  // namespace

RoundParts round_noise(const MicrobatchCosts& costs) {
  return round_parts(costs.rounds, jitter_variance(costs));
}

bool knows_noise(const Profile& profile) {
  return std::ranges::any_of(profile.microbatches, &MicrobatchCosts::knows_noise);
}

std::optional<StepNoise> step_noise(const Profile& profile, const Cluster* cluster,
                                    const Plan& plan, const Slicing& slicing, const Costs& costs) {
  const MicrobatchCosts* known = nearest_known(profile, plan.microbatch);
  if (!known) return std::nullopt;
  const NoiseOfStages of_stages(*profile.at(plan.microbatch), *known);
  StepNoise noise{.microbatch = plan.microbatch, .group_parts = plan.tensor_parallel};
  for (size_t stage = 0; stage < slicing.stages.size(); ++stage)
    noise.stages.push_back(of_stages.stage(slicing.stages[stage], costs.stages[stage]));
  RoundParts parts = round_noise(*known);
  noise.common = std::move(parts.common);
  noise.own = std::move(parts.own);
  noise.size_error = round_error(known->rounds);
  if (!cluster && !profile.links.empty())
    noise.link_error = deviation_of_median * link_during_step(profile).residual;
  return noise;
}

}  // namespace penstock
