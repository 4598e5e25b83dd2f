// The splits that compete to become the plan.
#pragma once

#include <optional>
#include <vector>

#include "planner/judge.hpp"
#include "planner/layouts/layout_search.hpp"
#include "planner/simplest.hpp"

namespace penstock {

/// A split that was found, and what is to be expected of it.
struct Contender {
  const LayoutSearch* search;
  FoundSplit split;
  SearchResult::Space space;       // that it was found in
  double weighted_s = 0;           // its expected step; on mean times where that is not known
  std::optional<Verdict> verdict;  // absent where nothing is known of how times vary
  Slicing slicing;                 // where the profile knows that

  PipelineLayout layout() const { return search->layouts()[split.space]; }
  /// 0: not judged.
  double expected_s() const { return verdict ? verdict->expected_s : 0; }
  /// Its step on mean times, weighted.
  double mean_s() const { return search->weight(layout()) * split.outcome.step_s; }
};

Contender contender(const PlanningInputs& inputs, const LayoutSearch& search, FoundSplit split,
                    SearchResult::Space space);
Contender contender(const PlanningInputs& inputs, SimplestSearch::Found found);

/// The best of each layout on mean times, ascending, as long as one might be expected to be the
/// fastest (plan.hpp); the best of all alone where memory is the objective, or where the profile
/// does not know what times vary by. `result` has found something.
std::vector<Contender> finalists(const PlanningInputs& inputs, const PlanRequest& request,
                                 const LayoutSearch& search, const SearchResult& result);

/// The share by which a plan is expected to be faster than another, and the share that cannot be
/// told: the standard error of the former, `tolerance` at least.
struct Lead {
  double gain = 0, noise = 0;
  bool tells() const { return gain > noise; }
};
Lead lead(const Contender& fastest, const Contender& other, double tolerance);

}  // namespace penstock
