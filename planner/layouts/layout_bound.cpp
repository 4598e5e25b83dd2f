#include "planner/layouts/layout_bound.hpp"

#include <algorithm>

namespace penstock {

LayoutBound::LayoutBound(const ChainCosts& costs) {
  bool whole = true;
  double forward_s = 0, forward0_s = 0;
  std::vector<double> unit_s;
  before_s_.push_back(0);
  for (size_t unit = 0; unit < costs.forward_s.size(); ++unit) {
    const auto of = [&](const std::vector<double>& values) {
      return values.empty() ? 0.0 : values[unit];
    };
    const double inputs_s = costs.forward_s[unit] + costs.backward_s[unit];
    one_s_ += inputs_s;
    weights_s_ += of(costs.weight_s);
    first_s_ += of(costs.first_forward_s) + of(costs.first_backward_s);
    optimizer_s_ += of(costs.optimizer_s);
    reduce_s_ += of(costs.unit_reduce_s);
    host_s_ += of(costs.host_s);
    max_host_s_ = std::max(max_host_s_, of(costs.host_s));
    unit_s.push_back(inputs_s + of(costs.weight_s));
    forward_s += costs.forward_s[unit];
    forward0_s += costs.forward_s[unit] + of(costs.first_forward_s);
    if (unit + 1 < costs.forward_s.size()) {
      whole = whole && (costs.linked.empty() || costs.linked[unit] != 0);
    }
    before_s_.push_back(whole ? std::max(0.0, std::min(forward_s, forward0_s)) : 0.0);
  }
  whole_units_ = WholeUnits(std::move(unit_s));
  through_s_ = whole ? one_s_ + std::min(0.0, first_s_) : 0.0;
  fill_s_.push_back(0);
  for (const double before_s : before_s_) fill_s_.push_back(fill_s_.back() + before_s);
}

/// A rank of speed s that begins after h and has work w ends at h + w / s at the earliest: the sum
/// of s * end over the ranks is the whole work and at least the slowest s times their beginnings.
double LayoutBound::step_s(const RankSpeeds& speeds, int64_t microbatches, double cores) const {
  const auto m = static_cast<double>(microbatches);
  const size_t begun = std::min(static_cast<size_t>(speeds.ranks()), fill_s_.size() - 1);
  const double waiting_s = speeds.slowest() * (reduce_s_ + fill_s_[begun]);
  const double work_s = m * (one_s_ + weights_s_) + first_s_;
  const double mean_s = std::max((work_s + waiting_s) / speeds.together(), work_s / cores);
  // Its microbatch 0 may take less.
  const double largest_s = (m - 1) * whole_units_.largest_load_s(speeds.ranks());
  const double hosts_s = m * std::max(max_host_s_, host_s_ / speeds.ranks());
  return std::max({mean_s, largest_s, through_s_, hosts_s}) +
         optimizer_s_ / std::min(speeds.together(), cores);
}

}  // namespace penstock
