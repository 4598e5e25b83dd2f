// Shared parameters that one rank, their owner, updates for all (`transmit` in plan files:
// pipeline/plan/sharing.hpp): once a step gradients are summed to the owner, and the updated
// parameters broadcast from it.
//
// Worth its code for memory: GPT-2 small with its tied embedding on 4 ranks (1F1B, 8 microbatches,
// estimated for H100) needs 2698 MiB on the last rank in place of 2993 MiB, for a step of 285.9 ms
// in place of 285.4 ms (predicted, 2026-11-23).
#pragma once

#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/stage/recipe/store.hpp"
#include "graph/cuts/slice.hpp"
#include "pipeline/plan/plan.hpp"

namespace penstock {

/// One such parameter; ranks are those of the run, all of one replica and the same part of their
/// tensor groups, which holds as much of it in each.
struct ParameterBroadcast {
  int tensor = 0;  // index in Graph::tensors
  int owner = 0;
  std::vector<int> others;  // ascending
  int tag = 0;              // of the gradient; the parameter's is the next one
};

/// The broadcasts that `rank` of the run takes part in, in the same order on all ranks, so that
/// ranks that wait for one another cannot deadlock. `first_tag`: the first of two tags for each of
/// `Slicing::shared`.
std::vector<ParameterBroadcast> parameter_broadcasts(const Plan& plan, const Slicing& slicing,
                                                     int rank, int first_tag);

/// Each owner adds the others' gradients to its own, in ascending order of rank. A rank without a
/// gradient sends zeros.
void sum_to_owners(const std::vector<ParameterBroadcast>& broadcasts, TensorStore& store,
                   Communicator& communicator);

/// The others' parameters become the owner's, bit for bit.
void broadcast_parameters(const std::vector<ParameterBroadcast>& broadcasts, TensorStore& store,
                          Communicator& communicator);

}  // namespace penstock
