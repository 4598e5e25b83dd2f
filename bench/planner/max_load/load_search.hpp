// A dynamic programme over downsets: the least load of the devices used so far, by downset done and
// number of accelerators and CPUs used. From each downset all larger ones are walked through, a
// unit at a time, so that the load of the stage between is kept up to date and not computed anew.
#pragma once

#include <vector>

#include "bench/planner/infinite.hpp"
#include "bench/planner/max_load/placement_units.hpp"
#include "bench/planner/max_load/stage_load.hpp"
#include "planner/model/downsets.hpp"

namespace penstock::bench {

class LoadSearch {
 public:
  /// All outlive it.
  LoadSearch(const PlacementGraph& graph, const PlacementUnits& units, Downsets& downsets);

  /// The least load, if it is at most `bound_s`; else infinite.
  double solve(double bound_s);

  struct Stage {
    int from, to;  // downsets
    bool cpu;
  };
  /// The stages that solve() found, in order.
  std::vector<Stage> stages() const;

 private:
  /// By downset and devices used.
  struct Cell {
    double load_s = infinite;
    int from = -1;
    bool cpu = false;
  };
  Cell& at(int set, int cell) { return best_[static_cast<size_t>(set) * cells_ + cell]; }
  const Cell& at(int set, int cell) const {
    return best_[static_cast<size_t>(set) * cells_ + cell];
  }
  const Cell& last() const;
  double cpu_share_s(double budget_s) const;
  bool extend(int from, int to, double bound_s);
  void improve(int to, int cell, const Cell& way);

  const PlacementGraph& graph_;
  const PlacementUnits& units_;
  Downsets& downsets_;
  StageLoad load_;
  int accelerators_, cpus_, cells_;  // cell: CPUs used * (accelerators_ + 1) + accelerators used
  std::vector<Cell> best_;           // of downset d: cells_ from d * cells_ on
  std::vector<int> live_;            // cells in which the downset walked from was reached
  std::vector<double> left_s_;       // on accelerators, by downset, of the units not in it
  std::vector<double> capacity_s_;   // by cell: what of it the devices left can do in the bound
};

}  // namespace penstock::bench
