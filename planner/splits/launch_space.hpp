// The splits of a layout whose hosts issue to devices that run behind them: whatever another space
// knows of them, and that no step is shorter than what a host takes to issue the work of its rank.
//
// A host waits for nothing up to OPT, so its work is a path of its own: bounds of the devices hold
// beside it, and it only makes ends later (simulator/engine/engine.hpp).
#pragma once

#include <memory>

#include "planner/bounds/placement.hpp"
#include "planner/bounds/work_sums.hpp"
#include "planner/splits/split_space.hpp"

namespace penstock {

class LaunchSpace : public SplitSpace {
 public:
  /// `hosts`: over the sets of units that `devices` counts by.
  LaunchSpace(std::unique_ptr<const SplitSpace> devices, WorkSums hosts, Placement placement)
      : devices_(std::move(devices)), hosts_(std::move(hosts)), placement_(std::move(placement)) {}

  int units() const override { return devices_->units(); }
  int stages() const override { return devices_->stages(); }
  std::vector<int> ends(int begin, int left) const override { return devices_->ends(begin, left); }
  int64_t splits() const override { return devices_->splits(); }

  Prefix extend(const Prefix& known, int begin, int end, int left) const override;
  double min_s(const Prefix& known, int begin, int left) const override;
  int64_t min_bytes(const Prefix& known, int begin, int left) const override {
    return devices_->min_bytes(known, begin, left);
  }
  double split_s(const std::vector<int>& begins) const override;
  double rough_s(const std::vector<int>& begins) const override {
    return devices_->rough_s(begins);
  }
  int64_t split_effort() const override { return devices_->split_effort(); }

 private:
  const std::unique_ptr<const SplitSpace> devices_;
  const WorkSums hosts_;
  const Placement placement_;
};

}  // namespace penstock
