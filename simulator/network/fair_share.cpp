#include "simulator/network/fair_share.hpp"

#include <algorithm>
#include <limits>

namespace penstock {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// All flows grow together; those that reach their bound, or whose capacity is used up, stop.
class ProgressiveFilling {
 public:
  ProgressiveFilling(const std::vector<FairFlow>& flows, const std::vector<double>& capacity)
      : flows_(flows), left_(capacity), users_(capacity.size(), 0), rates_(flows.size(), -1) {
    for (const FairFlow& flow : flows) count(flow, 1);
  }

  std::vector<double> run() {
    for (size_t open = flows_.size(); open > 0;) {
      const double rate = next_level();
      for (size_t i = 0; i < flows_.size(); ++i) {
        if (rates_[i] >= 0 || limit(flows_[i]) > rate) continue;
        stops_.push_back(i);
      }
      for (const size_t i : stops_) stop(i, rate);
      open -= stops_.size();
      stops_.clear();
    }
    return std::move(rates_);
  }

 private:
  void count(const FairFlow& flow, int change) {
    for (const int shared : *flow.passes) users_[static_cast<size_t>(shared)] += change;
  }

  double share(int shared) const {
    return left_[static_cast<size_t>(shared)] / users_[static_cast<size_t>(shared)];
  }

  /// The common rate at which this flow has to stop.
  double limit(const FairFlow& flow) const {
    double least = flow.bound > 0 ? flow.bound : infinite;
    for (const int shared : *flow.passes) least = std::min(least, share(shared));
    return least;
  }

  double next_level() const {
    double level = infinite;
    for (size_t i = 0; i < flows_.size(); ++i) {
      if (rates_[i] < 0) level = std::min(level, limit(flows_[i]));
    }
    return level;
  }

  void stop(size_t i, double rate) {
    rates_[i] = rate;
    count(flows_[i], -1);
    for (const int shared : *flows_[i].passes) {
      double& left = left_[static_cast<size_t>(shared)];
      left = std::max(0.0, left - rate);
    }
  }

  const std::vector<FairFlow>& flows_;
  std::vector<double> left_;  // by capacity: what stopped flows do not use
  std::vector<int> users_;    // by capacity: flows that still grow
  std::vector<double> rates_;
  std::vector<size_t> stops_;
};

}  // namespace

std::vector<double> fair_rates(const std::vector<FairFlow>& flows,
                               const std::vector<double>& capacity) {
  return ProgressiveFilling(flows, capacity).run();
}

}  // namespace penstock
