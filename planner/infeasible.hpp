// What to tell someone whose model does not fit: by how much, and what would make it fit.
#pragma once

#include <cstdint>
#include <string>

#include "graph/error.hpp"
#include "planner/candidates.hpp"
#include "planner/model_chain.hpp"

namespace penstock {

struct Misfit {
  const Profile& profile;
  const ModelChain& chain;
  const PlanRequest& request;
  int ranks;
  MemoryLimit limit;
  int64_t least_bytes;  // the least peak of any plan that was asked for
};

/// Names the memory that suffices and, by closed form, another schedule, microbatch count or number
/// of ranks that would fit, where there is one.
InputError does_not_fit(const Misfit& misfit);

}  // namespace penstock
