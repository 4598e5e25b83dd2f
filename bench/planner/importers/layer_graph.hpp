// Layer graphs as PipeDream's profiler writes them and DAPPLE's planner reads them. A line per
// layer, then an indented line per edge:
//
//   node1 -- Conv2d(3, 64) -- forward_compute_time=1.5, backward_compute_time=3.0,
//       activation_size=[4096.0; 128.0], parameter_size=6912.000[ -- stage_id=0]     (one line)
//   <tab>node1 -- node2
//
// Times in the file are milliseconds, sizes bytes; a list of activation sizes is added up. What an
// earlier plan said in stage_id is checked and dropped.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "planner/model/dag.hpp"

namespace penstock {

struct Layer {
  std::string name, description;
  double forward_s = 0, backward_s = 0;              // for one batch of the profile
  double activation_bytes = 0, parameter_bytes = 0;  // output of that batch; weights
};

struct LayerGraph {
  std::vector<Layer> layers;  // in the order of the file
  Dag dag;                    // no cycles, no edge twice
};

/// Whether a text looks like one (and not like JSON).
bool is_layer_graph(std::string_view text);

/// Throws InputError (`FILE:LINE`) for a line of another form, a number that is negative or not
/// finite, a layer or an edge that is there twice, an edge to an unknown layer, a cycle, and a file
/// without layers.
LayerGraph parse_layer_graph(std::string_view text, std::string_view file);
LayerGraph read_layer_graph(const std::filesystem::path& path);

}  // namespace penstock
