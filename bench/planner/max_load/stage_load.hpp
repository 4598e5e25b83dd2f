// The load of a set of units on a device, kept up to date as units come and go.
#pragma once

#include <vector>

#include "bench/planner/max_load/placement_units.hpp"

namespace penstock::bench {

class StageLoad {
 public:
  /// An empty set. The units outlive it.
  explicit StageLoad(const PlacementUnits& units);

  void add(int unit);
  /// Takes back the last add(), to the last bit.
  void undo(int unit);

  struct Sums {
    double cpu_s = 0, accelerator_s = 0;  // compute
    double transfer_s = 0;                // each output that enters or leaves the set, once
    double bytes = 0;
    int unsupported = 0;  // units that an accelerator cannot run
  };
  const Sums& now() const { return past_.back(); }

 private:
  struct Use {
    int output;
    bool home;  // the unit makes it; else it reads it
  };
  struct State {
    bool at_home = false;  // the set contains the output's home
    int readers = 0;       // and so many of its readers
  };
  double moved_s(int output) const;

  const PlacementUnits& units_;
  std::vector<std::vector<Use>> uses_;  // by unit
  std::vector<State> states_;           // by output
  std::vector<Sums> past_;
};

}  // namespace penstock::bench
