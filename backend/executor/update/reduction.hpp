// Sums gradients over the ranks that hold a parameter: copies in several stages, and replicas. For
// a broadcast parameter (broadcast.hpp) these are the owners of all replicas.
#pragma once

#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/stage/recipe/store.hpp"
#include "graph/cuts/slice.hpp"
#include "pipeline/program/program.hpp"

namespace penstock {

/// Tensors held by the same ranks of the run.
struct ReductionGroup {
  std::vector<int> ranks;    // ascending, two at least
  std::vector<int> tensors;  // indices in Graph::tensors, ascending
};

/// The groups that `rank` of the run is in, in the global order: descending by the last stage that
/// holds the tensors, then ascending by ranks. Every rank sees its groups in that order, so that
/// overlapping groups cannot deadlock.
std::vector<ReductionGroup> reduction_groups(const Graph& graph, const Slicing& slicing,
                                             const std::vector<int>& rank_of_stage, int replicas,
                                             int rank);

/// All ranks of the groups call it at the same point of a step. A holder without a gradient adds
/// zeros.
void reduce_gradients(const std::vector<ReductionGroup>& groups, TensorStore& store,
                      Communicator& communicator);

}  // namespace penstock
