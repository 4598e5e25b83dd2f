// The norm of all gradients of a model, over all ranks, and clipping by it as
// torch.nn.utils.clip_grad_norm_ does.
#pragma once

#include <set>
#include <vector>

#include "backend/executor/update/optimizer_shards.hpp"
#include "backend/stage/recipe/store.hpp"
#include "graph/cuts/slice.hpp"

namespace penstock {

/// Trainable tensors whose first stage is on `rank`: over the ranks of a pipeline each tensor is in
/// one of these sets, that of its owner where it is broadcast.
std::set<int> first_held(const Graph& graph, const Slicing& slicing,
                         const std::vector<int>& rank_of_stage, int rank);

/// The sum of the squares of the gradients of `indices`, of those in `parts` that part alone, in
/// double precision.
double squared_norm(TensorStore& store, const std::set<int>& indices,
                    const TensorParts& parts = {});

/// Multiplies every gradient of the store, or its part, by min(1, max_norm / (norm + 1e-6)).
void clip_gradients(TensorStore& store, double norm, double max_norm,
                    const TensorParts& parts = {});

}  // namespace penstock
