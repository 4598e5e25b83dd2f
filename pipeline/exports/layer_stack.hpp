// The transformer layers of a model: `layers.0`, `layers.1`, … .
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline/exports/module_cuts.hpp"

namespace penstock {

/// Modules of one list that run one after the other, each once. Points of ModuleCuts.
struct LayerStack {
  std::vector<size_t> begins;  // of each layer, ascending
  size_t end = 0;              // the first point after the last layer
};

/// The outermost list of numbered modules. Throws InputError, in the name of `tool`, where there is
/// none or several, where its modules do not run one after the other, and where nothing runs before
/// or after them.
LayerStack layer_stack(const ExportSource& source, const ModuleCuts& cuts, std::string_view tool);

}  // namespace penstock
