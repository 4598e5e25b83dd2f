// The microbatch sizes that are measured, their order, and the repetitions that the budget allows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace penstock::profiler {

/// Divisors of the global batch that the model allows: powers of two ascending, then the others
/// ascending; for a model exported with a static batch that one. Throws InputError (place `place`)
/// where none is left, naming the sizes that the model allows.
std::vector<int64_t> microbatch_sizes(const Graph& graph, int64_t global_batch,
                                      const std::string& place);

/// Repetitions of each pass over the model at one microbatch size. A repetition is F and B, then F,
/// I and W: about two microbatches' time.
struct Repetitions {
  int whole = 3, units = 1, operators = 1;  // the minimum
  /// Their time in microbatches, with warm-ups and the first microbatches of two steps.
  int passes() const { return 3 + 2 * (whole + units + operators) + (warm_parts() ? 2 : 0); }
  /// Do units and operators run once before they are measured? They do where the budget allows.
  bool warm_parts() const { return units > 1 && operators > 1; }
};

/// How much is measured.
struct Effort {
  Repetitions minimum;
  /// Repetitions of the units at the first size, from which it is known what times vary by; at the
  /// others as many as there is time for.
  int noise_units = 6;
  /// Training steps, spread over the microbatch sizes: profiling takes less than 30 by default. The
  /// rest is for links, probes and the optimizer, on GPUs also for hosts and CUDA graphs.
  double steps = 27;
  /// The first so many sizes are measured in any case, others where their minimum of repetitions
  /// fits into the seconds; more repetitions than that fit into them as well.
  size_t sizes = 4;
  double seconds = 30;
  /// Where steps are short, a size has so many seconds, or its part of half of them all: on a
  /// machine that others share, what is measured in less has the luck of a moment.
  double size_seconds = 2;
};
inline constexpr Effort quick_effort{.minimum = {2, 1, 1},
                                     .noise_units = 1,
                                     .steps = 12,
                                     .sizes = 3,
                                     .seconds = 5,
                                     .size_seconds = 0.2};

/// The members of `sizes`, in order, whose minimum of repetitions fits into the steps; a
/// microbatch of m samples takes m / global_batch of a step.
std::vector<int64_t> affordable(const std::vector<int64_t>& sizes, int64_t global_batch,
                                const Effort& effort = {});

/// The share of sizes[i] in training steps: its minimum of repetitions and a part of the rest;
/// the sum over affordable sizes is `effort.steps`.
double allowed_steps(const std::vector<int64_t>& sizes, size_t i, int64_t global_batch,
                     const Effort& effort = {});

/// As many repetitions as fit into the time of `passes` microbatches, from the minimum up to 100.
Repetitions repetitions(double passes, const Repetitions& minimum = {});

}  // namespace penstock::profiler
