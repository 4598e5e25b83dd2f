// A file of another planner, whichever it is.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "bench/planner/importers/device_placement.hpp"
#include "bench/planner/importers/layer_graph.hpp"
#include "bench/planner/importers/piper.hpp"
#include "bench/planner/settings.hpp"

namespace penstock::bench {

struct PeerFile {
  std::string path, sha256;
  std::variant<LayerGraph, PlacementGraph, PiperGraph> graph;
};

/// Recognises the kind from the content. Throws InputError as the readers do, and for JSON of
/// another kind.
PeerFile parse_peer_file(const std::string& text, const std::string& path);
PeerFile read_peer_file(const std::string& path);

/// Without options those for which a value is published, if there are any. Else one: what the file
/// says, or for a layer graph 16 workers at 1 GB/s under PipeDream's objective and, where the
/// profile's batch is given, 16 devices under DAPPLE's; with what was asked for in place. Throws
/// InputError for options that the objective has no use for, or lacks.
std::vector<Setting> settings(const PeerFile& file, const SettingOptions& options);

struct PeerResult {
  double value = 0;   // in the unit of the objective; infinite (a speedup: 0) where nothing fits
  std::string plan;   // `8-5-3`: devices of each stage
  bool exact = true;  // the optimum, not only the best that a limited search found
  double elapsed_s = 0, cpu_s = 0;  // from the graph in memory to the value
};

PeerResult solve(const PeerFile& file, const Setting& setting);

}  // namespace penstock::bench
