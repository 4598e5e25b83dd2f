// Exact search over the contiguous splits of a chain into a number of stages, for several schedules
// and microbatch counts at once: best lower bound first, simulated until the next bound is no
// better than the best found. Deterministic: equal steps are decided by key, never by order of
// arrival.
//
// Steps are compared in whole nanoseconds, far below what a measurement can tell, so that plans
// whose sums differ in rounding alone are ties. A key is (step, peak memory, space, split), each
// the less the better; peak memory comes first where memory is the objective.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/chain_bound.hpp"
#include "planner/chain_memory.hpp"

namespace penstock {

/// All splits for one schedule and microbatch count. Spaces are listed in the order that decides
/// ties.
struct SplitSpace {
  ChainBound time;
  ChainMemory memory;

  int64_t splits() const;  // C(units - 1, ranks - 1); the largest int64_t where it is more
};

/// What the simulator says of a split.
struct SplitOutcome {
  double step_s = 0;
  int64_t peak_bytes = 0;  // of the fullest rank
};

struct FoundSplit {
  size_t space = 0;
  std::vector<int> begins;
  SplitOutcome outcome;
};

struct SearchState {
  int64_t simulated = 0, expanded = 0;
  double bound_s = 0;  // no split that is still open is faster
  double best_s = 0;   // 0: nothing yet
};

struct SplitSearch {
  enum class Objective { step, memory };
  Objective objective = Objective::step;
  int64_t memory_limit = INT64_MAX;
  std::function<SplitOutcome(size_t space, const std::vector<int>& begins)> simulate;
  std::function<void(const SearchState&)> progress;  // now and then; may be empty
};

struct SearchResult {
  std::optional<FoundSplit> best;  // absent where nothing fits
  struct Space {
    int64_t simulated = 0;
    double best_s = 0;  // of those simulated that fit; 0: none
  };
  std::vector<Space> spaces;
};

/// Every space has at least one split simulated, where one can fit, so that all can be shown.
/// Throws std::logic_error if a split is simulated to be faster than its bound.
SearchResult search_splits(const std::vector<SplitSpace>& spaces, const SplitSearch& search);

}  // namespace penstock
