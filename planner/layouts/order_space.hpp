// The splits of a layout whose program is made for each of them: whatever another space knows of
// them, and that no order of the actions of a whole split ends earlier (order_bound.hpp).
#pragma once

#include <memory>

#include "planner/bounds/placement.hpp"
#include "planner/bounds/work_sums.hpp"
#include "planner/model/rank_speeds.hpp"
#include "planner/splits/split_space.hpp"
#include "simulator/adaptive/order_bound.hpp"

namespace penstock {

class OrderSpace : public SplitSpace {
 public:
  /// `costs`: those of `prefixes`, for the fastest rank. Each microbatch crosses every cut.
  OrderSpace(std::unique_ptr<const SplitSpace> prefixes, ChainCosts costs, Placement placement,
             RankSpeeds speeds);

  int units() const override { return prefixes_->units(); }
  int stages() const override { return prefixes_->stages(); }
  std::vector<int> ends(int begin, int left) const override { return prefixes_->ends(begin, left); }
  int64_t splits() const override { return prefixes_->splits(); }

  Prefix extend(const Prefix& known, int begin, int end, int left) const override {
    return prefixes_->extend(known, begin, end, left);
  }
  double min_s(const Prefix& known, int begin, int left) const override {
    return prefixes_->min_s(known, begin, left);
  }
  int64_t min_bytes(const Prefix& known, int begin, int left) const override {
    return prefixes_->min_bytes(known, begin, left);
  }
  double split_s(const std::vector<int>& begins) const override;
  double rough_s(const std::vector<int>& begins) const override {
    return prefixes_->split_s(begins);
  }
  int64_t split_effort() const override { return effort_; }

 private:
  double speed(size_t stage) const {
    return speeds_.relative()[static_cast<size_t>(placement_.rank_of_stage[stage])];
  }

  const std::unique_ptr<const SplitSpace> prefixes_;
  const ChainCosts costs_;
  const Placement placement_;
  const RankSpeeds speeds_;
  const WorkSums sums_;
  const int64_t effort_;
};

}  // namespace penstock
