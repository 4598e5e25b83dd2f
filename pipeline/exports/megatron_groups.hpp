// Megatron's tensor groups: it splits the words' embedding and the output along the vocabulary, in
// each layer columns and then rows, and with --sequence-parallel what is between layers along the
// sequence; nothing else is split, and nothing says otherwise.
#pragma once

#include <string>

#include "pipeline/exports/layer_stack.hpp"

namespace penstock {

/// ` --tensor-model-parallel-size 8`, and ` --sequence-parallel` where the plan's layers hand on
/// sequences that are split. `source` has tensor groups.
std::string tensor_parallel_arguments(const ExportSource& source, const ModuleCuts& cuts,
                                      const LayerStack& stack);

}  // namespace penstock
