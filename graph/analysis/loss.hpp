// Tensors the loss depends on.
#pragma once

#include <set>

#include "graph/analysis/analysis.hpp"

namespace penstock {

/// Trainable tensors, by index in Graph::tensors, from which operators pass gradients on to the
/// first output, which the loss is made of. The others get none, as in PyTorch, where `grad` stays
/// None. All of them where operators write to their inputs: dependences are not followed
/// there.
std::set<int> tensors_of_loss(const Graph& graph, const Analysis& analysis);

}  // namespace penstock
