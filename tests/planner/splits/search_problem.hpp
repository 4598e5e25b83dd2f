// A search over one chain in several schedules, and trying every split of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "planner/splits/chain_space.hpp"
#include "planner/splits/search.hpp"
#include "tests/pipeline/in_flight.hpp"
#include "tests/planner/chains.hpp"
#include "tests/planner/splits/in_blocks.hpp"

namespace penstock::test {

/// A chain with several (schedule, microbatches); costs per microbatch shrink with their number.
struct Problem {
  Chain chain;
  int ranks;
  std::vector<std::pair<std::string, int>> candidates;  // in the order that decides ties
};

inline Problem make_problem(uint64_t seed, bool breaks = false) {
  ChainKind kind;
  kind.units = 3 + static_cast<int>(seed % 6);
  kind.equal = seed % 4 == 0;
  kind.extras = seed % 3 != 0;
  kind.breaks = breaks;
  kind.transfer_scale = seed % 2 == 0 ? 0.05 : 0.5;
  Problem problem{
      random_chain(seed, kind), 1 + static_cast<int>(seed / 5 % std::min(kind.units, 4)), {}};
  for (const char* schedule : {"gpipe", "1f1b"})
    for (int microbatches : {2, 4, 9}) problem.candidates.emplace_back(schedule, microbatches);
  return problem;
}

/// Either kind of bounds; placed ones know less.
inline std::unique_ptr<const SplitSpace> splits_of(const Problem& problem, size_t candidate,
                                                   bool placed) {
  const auto& [schedule, microbatches] = problem.candidates[candidate];
  const Program compute = compute_program(schedule, problem.ranks, microbatches);
  if (placed) {
    return std::make_unique<PlacedSpace>(placed_space(problem.chain, schedule, compute));
  }
  return std::make_unique<ChainSpace>(
      bound_of(problem.chain, schedule, problem.ranks, microbatches),
      ChainMemory(bytes_of(problem.chain), problem.ranks, in_flight(compute)));
}

inline SplitOutcome outcome(const Problem& problem, size_t candidate,
                            const std::vector<int>& begins) {
  const auto& [schedule, microbatches] = problem.candidates[candidate];
  const Simulation run = simulate_split(problem.chain, begins, schedule, microbatches);
  return {run.makespan_s, *std::ranges::max_element(run.peak_memory_bytes), run.actions};
}

using Simulate = std::function<SplitOutcome(size_t, const std::vector<int>&)>;

class Opened : public OpenSpace {
 public:
  Opened(std::unique_ptr<const SplitSpace> splits, size_t index, const Simulate& simulate)
      : splits_(std::move(splits)), index_(index), simulate_(simulate) {}
  const SplitSpace& splits() const override { return *splits_; }
  SplitOutcome simulate(const std::vector<int>& begins, const Aim& /*aim*/) override {
    return simulate_(index_, begins);
  }

 private:
  std::unique_ptr<const SplitSpace> splits_;
  size_t index_;
  const Simulate& simulate_;
};

/// Bounded as `bounded` says, which is `problem` unless named.
inline SearchResult search_as(const Problem& bounded, int64_t limit, const SplitSearch& how,
                              const Simulate& simulate, bool placed = false) {
  std::vector<SearchSpace> spaces;
  for (size_t c = 0; c < bounded.candidates.size(); ++c) {
    spaces.push_back({.memory_limit = limit, .open = [&, c] {
                        return std::make_unique<Opened>(splits_of(bounded, c, placed), c, simulate);
                      }});
  }
  return search_in_blocks(spaces, how);
}

inline SearchResult search(const Problem& problem, int64_t limit, SearchObjective objective,
                           bool placed = false, int threads = 1) {
  const Simulate simulate = [&](size_t space, const std::vector<int>& begins) {
    return outcome(problem, space, begins);
  };
  return search_as(problem, limit, {.objective = objective, .threads = threads}, simulate, placed);
}

/// The best of all splits, by the key that search.hpp promises.
inline std::optional<FoundSplit> try_all(const Problem& problem, int64_t limit,
                                         SearchObjective objective) {
  std::optional<FoundSplit> best;
  const auto key = [&](const FoundSplit& split) {
    int64_t first = std::llround(split.outcome.step_s * 1e9), second = split.outcome.peak_bytes;
    if (objective == SearchObjective::memory) std::swap(first, second);
    return std::tuple(first, second, split.space, split.begins);
  };
  for (size_t c = 0; c < problem.candidates.size(); ++c) {
    for (const std::vector<int>& begins : all_splits(problem.chain.costs.units(), problem.ranks)) {
      const FoundSplit split{c, begins, outcome(problem, c, begins)};
      if (split.outcome.peak_bytes > limit) continue;
      if (!best || key(split) < key(*best)) best = split;
    }
  }
  return best;
}

}  // namespace penstock::test
