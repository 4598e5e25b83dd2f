// A placement graph as a search over downsets takes it: what must share a device is one unit, and
// the units form a DAG along which stages are contiguous.
#pragma once

#include <vector>

#include "bench/planner/importers/device_placement.hpp"

namespace penstock::bench {

/// An output that other units read, with all that have the same home and readers added up.
struct Output {
  int home = 0;
  std::vector<int> readers;  // ascending, without the home
  double move_s = 0;
};

struct PlacementUnits {
  std::vector<int> unit_of;  // by node
  /// Between units, along the forward edges.
  Dag dag;
  std::vector<double> cpu_s, accelerator_s, bytes;
  std::vector<bool> supported;  // by accelerators
  std::vector<Output> outputs;
};

/// Units are, in this order of merging:
///  - the nodes of one colour class, forward and backward;
///  - the classes of a strongly connected component of the forward edges between classes. A class
///    without a forward node takes its place by the backward edges, turned around;
///  - a unit that takes no time and the only other unit that it has edges with: apart they load
///    their devices no less than together. Only where memory cannot forbid that, because the unit
///    holds none or everything fits on one accelerator.
PlacementUnits placement_units(const PlacementGraph& graph);

}  // namespace penstock::bench
