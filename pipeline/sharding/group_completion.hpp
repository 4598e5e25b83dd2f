// How tensor groups run a model, as plans and profiles say it.
#pragma once

#include "graph/sharding/complete.hpp"

namespace penstock {

/// What is not pinned is the cheapest where a step has 64 samples or a microbatch, so that it hardly
/// depends on the size of microbatches and not at all on their number. Throws as
/// sharding::complete does.
sharding::Completion group_completion(const Graph& model, const sharding::Pins& pins,
                                      int64_t microbatch, int parts);

}  // namespace penstock
