// Inputs of the planner of J. Tarnawski et al., "Efficient algorithms for device placement of DNN
// graph operators", 2020 (repository dnn-partitioning). JSON:
//
//   {maxFPGAs, maxCPUs, maxSizePerFPGA,
//    nodes: [{id, supportedOnFpga, cpuLatency, fpgaLatency, isBackwardNode, colorClass?, size?}],
//    edges: [{sourceId, destId, cost}]}
//
// The file calls accelerators FPGAs. Latencies are milliseconds; so is an edge's cost, the time
// that the source's output takes to or from an accelerator, which is therefore the same for all
// edges out of a node. Nodes of one colour class must share a device. Other members are left alone.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "planner/model/dag.hpp"

namespace penstock {

struct PlacementNode {
  double cpu_s = 0, accelerator_s = 0;
  double output_s = 0;    // moving its output to or from an accelerator once
  double bytes = 0;       // on an accelerator, as long as it is there
  bool supported = true;  // by accelerators
  bool backward = false;
  int colour = 0;
};

struct PlacementGraph {
  int accelerators = 0, cpus = 0;
  double accelerator_bytes = 0;
  std::vector<PlacementNode> nodes;  // in the order of the file
  Dag dag;                           // no cycles, and no edge from a backward to a forward node
};

/// Throws InputError (`FILE: /JSON/POINTER`) for a member that is missing, of another type or out
/// of range, an id that is there twice, an edge to an unknown id, two costs for one source, an edge
/// from a backward to a forward node, and a cycle.
PlacementGraph parse_placement_graph(std::string_view text, std::string_view file);
PlacementGraph read_placement_graph(const std::filesystem::path& path);

}  // namespace penstock
