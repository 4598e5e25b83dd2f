#include "planner/paths/split_times.hpp"

#include <limits>
#include <numeric>

namespace penstock {

namespace {

constexpr int kinds_of_stage = static_cast<int>(SplitTime::activations);

std::vector<double> sums_of(int units, const std::vector<double>& values,
                            const std::vector<double>& more = {}) {
  std::vector<double> sums{0.0};
  for (size_t unit = 0; unit < static_cast<size_t>(units); ++unit) {
    const double own = values.empty() ? 0.0 : values[unit];
    sums.push_back(sums.back() + own + (more.empty() ? 0.0 : more[unit]));
  }
  return sums;
}

/// By the unit behind the cut.
std::vector<double> of_cuts(int units, const std::vector<double>& cuts) {
  std::vector<double> values(static_cast<size_t>(units) + 1, 0.0);
  for (size_t cut = 0; cut < cuts.size(); ++cut) values[cut + 1] = cuts[cut];
  return values;
}

}  // namespace

double weighted_sum(const Times& weights, const Times& times) {
  return std::inner_product(weights.begin(), weights.end(), times.begin(), 0.0);
}

SplitTimes::SplitTimes(const ChainCosts& costs, const Placement& placement,
                       const RankSpeeds& speeds)
    : units_(costs.units()), rank_of_stage_(placement.rank_of_stage) {
  const std::vector<double> ones(static_cast<size_t>(units_), 1.0);
  sums_ = {sums_of(units_, costs.forward_s),
           sums_of(units_, costs.forward_s, costs.first_forward_s),
           sums_of(units_, costs.backward_s),
           sums_of(units_, costs.backward_s, costs.first_backward_s),
           sums_of(units_, costs.weight_s),
           sums_of(units_, costs.optimizer_s),
           sums_of(units_, ones),
           of_cuts(units_, costs.cut_forward_s),
           of_cuts(units_, costs.cut_backward_s)};
  const int first_parts = costs.weight_s.empty() ? 1 : 2;  // of a backward
  constants_ = {costs.action_s,
                costs.action_s + costs.first_action_s,
                costs.action_s,
                costs.action_s + first_parts * costs.first_action_s,
                costs.weight_action_s,
                0,
                0,
                0,
                0};
  scale_.assign(size(), 1.0);
  for (int stage = 0; stage < stages(); ++stage) {
    const auto rank = static_cast<size_t>(rank_of_stage_[static_cast<size_t>(stage)]);
    for (int kind = 0; kind < static_cast<int>(SplitTime::units); ++kind)
      scale_[at(static_cast<SplitTime>(kind), stage)] = 1 / speeds.relative()[rank];
    const bool crosses =
        stage > 0 && rank_of_stage_[static_cast<size_t>(stage) - 1] != static_cast<int>(rank);
    scale_[at(SplitTime::activations, stage)] = crosses ? 1 : 0;
    scale_[at(SplitTime::gradients, stage)] = crosses ? 1 : 0;
  }
}

SplitBox SplitTimes::all() const {
  SplitBox box;
  for (int stage = 0; stage < stages(); ++stage) {
    box.low.push_back(stage);
    box.high.push_back(stage == 0 ? 0 : units_ - stages() + stage);
  }
  return box;
}

Times SplitTimes::of(const std::vector<int>& begins) const {
  std::vector<std::vector<Place>> places;
  places.reserve(begins.size());
  for (const int begin : begins) places.push_back({{begin, 1.0}});
  return of(places);
}

Times SplitTimes::of(const std::vector<std::vector<Place>>& begins) const {
  Times times(size());
  for (int kind = 0; kind < split_times; ++kind) {
    const std::vector<double>& sums = sums_[static_cast<size_t>(kind)];
    double end = kind < kinds_of_stage ? sums.back() : 0.0;
    for (int stage = stages() - 1; stage >= 0; --stage) {
      double begin = 0;
      for (const auto& [unit, share] : begins[static_cast<size_t>(stage)])
        begin += share * sums[static_cast<size_t>(unit)];
      const size_t i = at(static_cast<SplitTime>(kind), stage);
      const double chain = kind < kinds_of_stage ? end - begin : begin;
      times[i] = scale_[i] * (chain + constants_[static_cast<size_t>(kind)]);
      end = begin;
    }
  }
  return times;
}

double SplitTimes::of_ends(const Times& weights) const {
  double sum = 0;
  for (int kind = 0; kind < kinds_of_stage; ++kind) {
    const auto k = static_cast<size_t>(kind);
    const size_t last = at(static_cast<SplitTime>(kind), stages() - 1);
    sum += weights[last] * scale_[last] * sums_[k].back();
    for (int stage = 0; stage < stages(); ++stage) {
      const size_t i = at(static_cast<SplitTime>(kind), stage);
      sum += weights[i] * scale_[i] * constants_[k];
    }
  }
  return sum;
}

std::vector<double> SplitTimes::of_begin(const Times& weights, int stage, int low, int high) const {
  std::vector<double> values(static_cast<size_t>(high - low) + 1, 0.0);
  for (int kind = 0; kind < split_times; ++kind) {
    const size_t i = at(static_cast<SplitTime>(kind), stage);
    double factor = scale_[i] * weights[i];
    if (kind < kinds_of_stage) factor = (stage > 0 ? scale_[i - 1] * weights[i - 1] : 0.0) - factor;
    if (factor == 0) continue;
    const double* sums = sums_[static_cast<size_t>(kind)].data() + low;
    for (size_t u = 0; u < values.size(); ++u) values[u] += factor * sums[u];
  }
  return values;
}

SplitTimes::Least SplitTimes::least(const Times& weights, const SplitBox& box) const {
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<double> best{0.0};  // stage 0 begins with unit 0
  std::vector<std::vector<int>> from(static_cast<size_t>(stages()));
  int before = 0;  // the first unit of `best`
  for (int stage = 1; stage < stages(); ++stage) {
    const auto s = static_cast<size_t>(stage);
    if (box.low[s] > box.high[s]) return {never, {}};
    std::vector<double> next = of_begin(weights, stage, box.low[s], box.high[s]);
    double least = never;
    int at_unit = -1, seen = before;
    for (int unit = box.low[s]; unit <= box.high[s]; ++unit) {
      for (; seen < unit && seen < before + static_cast<int>(best.size()); ++seen) {
        const double value = best[static_cast<size_t>(seen - before)];
        if (value < least) least = value, at_unit = seen;
      }
      next[static_cast<size_t>(unit - box.low[s])] += least;
      from[s].push_back(at_unit);
    }
    best = std::move(next);
    before = box.low[s];
  }
  Least result{never, {}};
  int last = -1;
  for (size_t u = 0; u < best.size(); ++u) {
    if (best[u] < result.sum) result.sum = best[u], last = before + static_cast<int>(u);
  }
  if (last < 0) return result;
  result.begins.assign(static_cast<size_t>(stages()), 0);
  for (auto s = static_cast<size_t>(stages()) - 1; s > 0; --s) {
    result.begins[s] = last;
    last = from[s][static_cast<size_t>(last - box.low[s])];
  }
  // Begins alone say where a split differs from others; its sum is that of all its times.
  result.sum = weighted_sum(weights, of(result.begins));
  return result;
}

}  // namespace penstock
