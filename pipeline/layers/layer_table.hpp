// Tables of layers: costs by layer, as people have them who train with other tools, in place of a
// model and its profile (docs/files.md: Layer tables).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/profile/profile.hpp"

namespace penstock {

/// More make a table of stages that takes gigabytes.
inline constexpr int64_t max_layers = 2000;

/// Seconds and bytes are those of one microbatch, but for what is held all the time.
struct Layer {
  std::string name;  // unique in the table; `block.3` of a row `block` with a count
  double forward_s = 0, backward_s = 0;
  double backward_input_s = 0, backward_weight_s = 0;  // where has_parts
  bool has_parts = false;                              // of the backward
  int64_t static_bytes = 0;                            // parameters, gradients, optimizer state
  std::optional<int64_t> gradient_bytes;               // part of these: what replicas sum
  int64_t saved_bytes = 0;                             // between F and B
  int64_t output_bytes = 0;                            // that go to the next layer
  std::vector<RecomputeChoice> recompute;
  bool operator==(const Layer&) const = default;
};

/// All layers, in order, at one microbatch size.
struct LayerCosts {
  int64_t microbatch = 1;
  std::vector<Layer> layers;
  bool operator==(const LayerCosts&) const = default;
};

struct LayerTable {
  std::string path, sha256;
  int64_t global_batch = 1;
  std::vector<LayerCosts> sizes;  // ascending; the same layers in each
  bool operator==(const LayerTable&) const = default;
};

/// Throws InputError: unknown keys, numbers out of range, names that occur twice, sizes with other
/// layers, more static bytes, or an output that does not grow with the microbatch.
LayerTable read_layers(const std::filesystem::path& path);
/// The same from the file's text.
LayerTable parse_layers(const std::string& text, const std::filesystem::path& path);

/// Layers in a row that are equal but for their number, `block.0` to `block.95`.
struct LayerRow {
  const Layer* layer;  // the first
  std::string name;    // `block`; of a row of one the layer's own
  int64_t count;
};
std::vector<LayerRow> rows(const std::vector<Layer>& layers);

/// With a line for each row.
std::string to_yaml(const LayerTable& table);

}  // namespace penstock
