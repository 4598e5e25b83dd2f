// The message for a model that does not fit: by how much, and what would make it fit.
#pragma once

#include "base/error.hpp"
#include "planner/layouts/evaluate.hpp"
#include "planner/model/model_chain.hpp"
#include "planner/plan.hpp"

namespace penstock {

struct Misfit {
  const PlanningInputs& inputs;
  const ModelChain& chain;
  const PlanRequest& request;
  int devices;
  bool proven;  // that nothing fits: the search was complete
};

/// Searches for the plan that holds least, for one that would fit with the optimizer's state shared
/// out, with another schedule, number of microbatches or replicas, and for more ranks; names the
/// memory that suffices and what it found.
InputError does_not_fit(const Misfit& misfit);

}  // namespace penstock
