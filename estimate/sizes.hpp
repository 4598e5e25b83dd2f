// The microbatch sizes that are estimated.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace penstock {

/// Divisors of the global batch that the model allows, ascending. Throws InputError (place
/// `place`) where there is none.
std::vector<int64_t> divisors_allowed(const Graph& graph, int64_t global_batch,
                                      const std::string& place);

}  // namespace penstock
