// Which microbatch sizes are measured, in which order, and how often within the time allowed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace penstock::profiler {

/// Divisors of the global batch that the model allows: powers of two ascending, then the others
/// ascending. A model exported with a static batch has that one. Throws InputError (place `place`)
/// where none is left, naming the sizes that the model allows.
std::vector<int64_t> microbatch_sizes(const Graph& graph, int64_t global_batch,
                                      const std::string& place);

/// How often each pass over the model is repeated at one microbatch size. A repetition of a pass is
/// F and B, then F, I and W: about two microbatches' time.
struct Repetitions {
  int whole = 3, units = 1, operators = 1;  // the least
  /// Microbatches' time that these take, with warm-ups and the first microbatches of two steps.
  int passes() const { return 3 + 2 * (whole + units + operators) + (warm_parts() ? 2 : 0); }
  /// Do units and operators run once before they are measured? Where that can be afforded.
  bool warm_parts() const { return units > 1 && operators > 1; }
};

/// Profiling takes less than 30 training steps; this many are spread over the microbatch sizes, the
/// rest is for links, probes and the optimizer, and of GPUs for hosts and CUDA graphs.
constexpr double budget_steps = 27;

/// Those of `sizes`, in order, for which the least repetitions fit into the budget; a microbatch of
/// m samples takes m / global_batch of a step.
std::vector<int64_t> affordable(const std::vector<int64_t>& sizes, int64_t global_batch);

/// Training steps' time for sizes[i]: its least repetitions, and a part of what is left; the sum
/// over affordable sizes is budget_steps.
double allowed_steps(const std::vector<int64_t>& sizes, size_t i, int64_t global_batch);

/// As many repetitions as fit into the time of `passes` microbatches, from the least up to 20.
Repetitions repetitions(double passes);

}  // namespace penstock::profiler
