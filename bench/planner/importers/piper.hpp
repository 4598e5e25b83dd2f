// Inputs of J. Tarnawski et al., "Piper: Multidimensional planner for DNN parallelization", 2021.
// JSON:
//
//   {maxDevices, maxMemoryPerDevice, bandwidth, mbsInBatch,
//    nodes: [{id, TMPCs: {"1": [{id, timePerSample, parameterSize, memoryUsageA, memoryUsageB,
//                                syncTimeFw: {"ID": …}, syncTimeBw: {"ID": …}}], "2": […]}}],
//    edges: [{sourceId, destId, communicationCost}]}
//
// A node runs in one of the variants that the file lists for a tensor parallel degree. Times are
// seconds; despite its name a sync time is in bytes, as are sizes and communication costs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "planner/model/dag.hpp"

namespace penstock {

/// How a node can run at one tensor parallel degree: `vanilla`, `activation recomp`.
struct PiperVariant {
  std::string name;
  double time_s = 0;  // for one sample
  double parameter_bytes = 0;
  double bytes_per_sample = 0;  // held for each sample in flight
  double bytes = 0;             // held always
  // Transfer time that tensor parallelism adds to an edge in or out, by the node at its end.
  std::map<int, double> sync_in_bytes, sync_out_bytes;
};

struct PiperNode {
  std::map<int, std::vector<PiperVariant>> variants;  // by tensor parallel degree; none empty
};

struct PiperGraph {
  int devices = 0;
  double device_bytes = 0, bytes_per_s = 0;
  int batch = 0;                   // microbatches in a batch, each of one sample
  std::vector<PiperNode> nodes;    // in the order of the file
  Dag dag;                         // no cycles, no edge twice
  std::vector<double> edge_bytes;  // of dag.edges
};

/// Throws InputError (`FILE: /JSON/POINTER`) for a member that is missing, of another type or out
/// of range, an id or an edge that is there twice, an edge to an unknown id, sync times that are
/// not those of the node's edges, a node without variants, and a cycle.
PiperGraph parse_piper_graph(std::string_view text, std::string_view file);
PiperGraph read_piper_graph(const std::filesystem::path& path);

}  // namespace penstock
