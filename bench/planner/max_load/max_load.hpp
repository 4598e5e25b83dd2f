// The objective of J. Tarnawski et al., "Efficient algorithms for device placement of DNN graph
// operators", 2020, section 5.1 (pipelined throughput), and its exact optimum over contiguous
// splits.
//
// Every stage is a device's whole share. An accelerator's load is its compute, the outputs that it
// reads from elsewhere and those of its own that others read, each once; its nodes' sizes must fit.
// A CPU's load is its compute. The value is the largest load of a device: the time from one sample
// (or training step) to the next. Contiguous: devices can be ordered so that every forward edge
// stays on one or leads to a later one.
#pragma once

#include <vector>

#include "bench/planner/importers/device_placement.hpp"

namespace penstock::bench {

struct MaxLoadStage {
  bool cpu = false;
  std::vector<int> nodes;  // ascending
  double load_s = 0;
};

struct MaxLoadPlan {
  double load_s = 0;                 // infinite where nothing fits
  std::vector<MaxLoadStage> stages;  // in order; devices that stay empty are not listed
  int downsets = 0;
  bool exact = true;  // false: more downsets than the limit, and the graph was split as a chain
};

MaxLoadPlan solve_max_load(const PlacementGraph& graph, size_t downset_limit = 60'000);

/// The load of one device with exactly these nodes; infinite where an accelerator cannot hold them.
double device_load_s(const PlacementGraph& graph, const std::vector<int>& nodes, bool cpu);

}  // namespace penstock::bench
