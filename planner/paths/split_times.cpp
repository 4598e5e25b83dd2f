#include "planner/paths/split_times.hpp"

#include <algorithm>
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
  const auto ranges = [&](int count, int low) {
    const auto n = static_cast<size_t>(count);
    return Ranges{std::vector<int>(n, low), std::vector<int>(n, units_)};
  };
  const int ranks = 1 + std::ranges::max(rank_of_stage_);
  SplitBox box{ranges(stages(), 0), ranges(stages(), 1), ranges(ranks, 0)};
  box.begins.high[0] = 0;
  tighten(box, rank_of_stage_, units_);
  return box;
}

std::pair<int, int> SplitTimes::begins(int stage, int units) const {
  const int behind = stages() - 1 - stage;
  return {behind == 0 ? units_ - units : stage, stage == 0 ? 0 : units_ - behind - units};
}

void SplitTimes::set_least(int stage, int units, Times& times) const {
  const auto [first, last] = begins(stage, units);
  for (int kind = 0; kind < split_times; ++kind) {
    const size_t time = at(static_cast<SplitTime>(kind), stage);
    times[time] = of_stage(time, first, first + units);
    for (int begin = first + 1; begin <= last; ++begin)
      times[time] = std::min(times[time], of_stage(time, begin, begin + units));
  }
}

Times SplitTimes::least(const SplitBox& box) const {
  Times least(size(), std::numeric_limits<double>::infinity()), of_units(size());
  for (int stage = 0; stage < stages(); ++stage) {
    const auto s = static_cast<size_t>(stage);
    for (int units = box.stages.low[s]; units <= box.stages.high[s]; ++units) {
      set_least(stage, units, of_units);
      for (int kind = 0; kind < split_times; ++kind) {
        const size_t time = at(static_cast<SplitTime>(kind), stage);
        least[time] = std::min(least[time], of_units[time]);
      }
    }
  }
  return least;
}

double SplitTimes::of_stage(size_t time, int begin, int end) const {
  const size_t kind = time / rank_of_stage_.size();
  const std::vector<double>& sums = sums_[kind];
  const double from = sums[static_cast<size_t>(begin)];
  const double chain = kind < kinds_of_stage ? sums[static_cast<size_t>(end)] - from : from;
  return scale_[time] * (chain + constants_[kind]);
}

Times SplitTimes::of(const std::vector<int>& begins) const {
  Times times(size());
  for (size_t time = 0; time < times.size(); ++time) {
    const size_t stage = time % begins.size();
    times[time] =
        of_stage(time, begins[stage], stage + 1 < begins.size() ? begins[stage + 1] : units_);
  }
  return times;
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

/// How often the sum along the chain at the begin of a stage > 0 counts.
double SplitTimes::begin_factor(const Times& weights, int kind, size_t stage) const {
  const size_t i = at(static_cast<SplitTime>(kind), static_cast<int>(stage));
  const double own = scale_[i] * weights[i];
  return kind < kinds_of_stage ? scale_[i - 1] * weights[i - 1] - own : own;
}

double SplitTimes::of_begin(const Times& weights, int stage, int unit) const {
  double value = 0;
  for (int kind = 0; kind < split_times; ++kind)
    value += begin_factor(weights, kind, static_cast<size_t>(stage)) *
             sums_[static_cast<size_t>(kind)][static_cast<size_t>(unit)];
  return value;
}

std::vector<double> SplitTimes::of_begin(const Times& weights, int stage, int low, int high) const {
  std::vector<double> values(static_cast<size_t>(high - low) + 1, 0.0);
  for (int kind = 0; kind < split_times; ++kind) {
    const double factor = begin_factor(weights, kind, static_cast<size_t>(stage));
    if (factor == 0) continue;
    const double* sums = sums_[static_cast<size_t>(kind)].data() + low;
    for (size_t u = 0; u < values.size(); ++u) values[u] += factor * sums[u];
  }
  return values;
}

}  // namespace penstock
