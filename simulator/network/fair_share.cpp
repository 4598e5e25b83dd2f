#include "simulator/network/fair_share.hpp"

#include <algorithm>
#include <limits>

namespace penstock {

FairShare::FairShare(const std::vector<double>& capacity)
    : capacity_(capacity), left_(capacity.size()), users_(capacity.size(), 0) {}

/// All flows grow together; those that reach their bound, or whose capacity is used up, stop.
void FairShare::fill(const std::vector<FairFlow*>& flows) {
  growing_ = flows;
  for (const FairFlow* flow : flows) {
    for (const int shared : *flow->passes) {
      left_[static_cast<size_t>(shared)] = capacity_[static_cast<size_t>(shared)];
      ++users_[static_cast<size_t>(shared)];
    }
  }
  while (!growing_.empty()) {
    double level = std::numeric_limits<double>::infinity();
    for (FairFlow* flow : growing_) level = std::min(level, flow->rate = limit(*flow));
    const auto stopped = std::partition(growing_.begin(), growing_.end(),
                                        [&](const FairFlow* flow) { return flow->rate > level; });
    for (auto flow = stopped; flow != growing_.end(); ++flow) stop(**flow, level);
    growing_.erase(stopped, growing_.end());
  }
}

/// The common rate at which this flow has to stop.
double FairShare::limit(const FairFlow& flow) const {
  double least = flow.bound > 0 ? flow.bound : std::numeric_limits<double>::infinity();
  for (const int shared : *flow.passes) least = std::min(least, share(shared));
  return least;
}

void FairShare::stop(FairFlow& flow, double rate) {
  flow.rate = rate;
  for (const int shared : *flow.passes) {
    double& left = left_[static_cast<size_t>(shared)];
    left = std::max(0.0, left - rate);
    --users_[static_cast<size_t>(shared)];
  }
}

}  // namespace penstock
