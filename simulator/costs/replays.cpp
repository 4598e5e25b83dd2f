#include "simulator/costs/replays.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace penstock {

namespace {

using TimesOf = Measured ActionTimes::*;
constexpr TimesOf all_actions[] = {&ActionTimes::forward, &ActionTimes::backward,
                                   &ActionTimes::backward_input, &ActionTimes::backward_weight};

/// The one at the largest size up to this one; else the first.
const ReplayCosts& nearest(const std::vector<ReplayCosts>& replays, int64_t microbatch) {
  const auto above = std::ranges::upper_bound(replays, microbatch, {}, &ReplayCosts::microbatch);
  return above == replays.begin() ? replays.front() : *(above - 1);
}

/// Seconds of the whole model.
WorkSeconds replayed(const Profile& profile, const MicrobatchCosts& costs, TimesOf action) {
  const ReplayCosts& known = nearest(profile.replays, costs.microbatch);
  const MicrobatchCosts& base = *profile.at(known.microbatch);
  const Measured& replay = known.times.*action;
  const double longer_s = replay.mean_s - base.whole(action).device_s;
  return {std::max(0.0, costs.whole(action).device_s + longer_s), replay.host_s};
}

double ratio(double to, double from) { return from > 0 ? to / from : 1; }

void scale(Measured& measured, const WorkSeconds& factor) {
  measured.mean_s *= factor.device_s;
  measured.median_s *= factor.device_s;
  measured.spread_s *= factor.device_s;
  measured.host_s *= factor.host_s;
}

void replay(const Profile& profile, MicrobatchCosts& costs) {
  for (const TimesOf action : all_actions) {
    const WorkSeconds before = costs.whole(action), after = replayed(profile, costs, action);
    const WorkSeconds factor{ratio(after.device_s, before.device_s),
                             ratio(after.host_s, before.host_s)};
    for (OperatorCost& op : costs.operators) scale(op.times.*action, factor);
    for (UnitCost& unit : costs.units) scale(unit.times.*action, factor);
    if (action == &ActionTimes::forward) scale(costs.loss_forward, factor);
  }
}

}  // namespace

Profile with_replays(Profile profile, CudaGraphs when) {
  if (when == CudaGraphs::never) return profile;
  if (profile.replays.empty()) {
    if (when == CudaGraphs::automatic) return profile;
    throw InputError(profile.path, "the profile has no times of CUDA graphs",
                     "They are measured on a GPU that waits for its host, where the model can be "
                     "recorded. Leave out --cuda-graphs on.");
  }
  const Profile measured = profile;
  for (MicrobatchCosts& costs : profile.microbatches) {
    const WorkSeconds pass = replayed(measured, costs, &ActionTimes::forward) +
                             replayed(measured, costs, &ActionTimes::backward);
    const bool faster = worth_capturing(costs.pass().host_s, costs.pass().longer_s()) &&
                        pass.longer_s() < costs.pass().longer_s();
    if (faster || when == CudaGraphs::always) replay(measured, costs);
  }
  return profile;
}

}  // namespace penstock
