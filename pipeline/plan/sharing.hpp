// Parameters of several stages, which ranks hold them, and in which of two ways they stay equal.
//
//   replicate   every rank that holds it gets the summed gradient and updates a copy of its own
//   transmit    the owner, which is the rank of the first stage that uses it, gets the gradients of
//               the others, updates it, and sends them the new value
//
// Both happen once a step: a holder sums its gradient over the step's microbatches first, and all
// of them are run with the same value. With transmit only the owner keeps the optimizer's state
// and, in bf16, the master.
#pragma once

#include <string_view>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "pipeline/plan/plan.hpp"

namespace penstock {

/// The words of `shared_parameters` in a plan; a parameter without one is replicated.
inline constexpr std::string_view way_replicate = "replicate", way_transmit = "transmit";

/// The ranks of one replica that hold a parameter.
struct Holders {
  int owner = 0;            // of the first stage that uses it
  std::vector<int> others;  // ascending; empty: nothing is shared between ranks
};
Holders holders_of(const Slicing::Shared& shared, const std::vector<int>& rank_of_stage);
/// The rank of each stage.
std::vector<int> ranks_of_stages(const Plan& plan);

/// Notes which parameters of several stages the plan transmits; part of `slice`. Throws InputError
/// for a name that the model does not have (suggesting the nearest), a parameter to transmit that
/// one rank alone uses, a parameter that has two names which say different things. What is frozen
/// never changes, so that nothing of it is transmitted.
void note_shared(const Plan& plan, const Graph& model, Slicing& slicing);

}  // namespace penstock
