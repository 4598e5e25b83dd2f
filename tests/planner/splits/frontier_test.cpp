// The open splits of a space, whether all are kept at a time or few.
#include "planner/splits/frontier.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/planner/splits/search_problem.hpp"

namespace penstock::test {
namespace {

struct GoneThrough {
  std::vector<std::vector<int>> splits;  // in the order in which they came
  int64_t kept = 0, kept_then = 0;       // nodes at most, and when they were to be few
};

constexpr int never = -1;

/// All splits, without an incumbent; from step `few_from` on few nodes are to be kept.
GoneThrough go_through(const SplitSpace& space, int few_from) {
  const SplitOrder order;
  Frontier open(space, order);
  GoneThrough gone;
  for (int step = 0; !open.empty(); ++step) {
    if (step == few_from) {
      open.keep_few();
      gone.kept_then = open.kept();
    }
    const double bound_s = open.bound_s();
    EXPECT_LE(std::get<1>(open.top()), std::get<1>(order.bound(bound_s, 0)));
    const auto begins = open.step(nullptr);
    gone.kept = std::max(gone.kept, open.kept());
    if (!begins) continue;
    EXPECT_LE(bound_s * (1 - bound_rounding), space.split_s(*begins));
    gone.splits.push_back(*begins);
  }
  return gone;
}

TEST(Frontier, GoesThroughAllSplitsAlsoWhereItKeepsFew) {
  for (const int few_from : {0, 1, 7, 40}) {
    for (uint64_t seed = 0; seed < 24; ++seed) {
      SCOPED_TRACE(fmt::format("seed {}, few from step {}", seed, few_from));
      const Problem problem = make_problem(seed);
      const auto space = splits_of(problem, seed % problem.candidates.size(), seed % 3 == 0);
      auto expected = all_splits(space->units(), space->stages());
      std::ranges::sort(expected);
      GoneThrough gone = go_through(*space, few_from);
      std::ranges::sort(gone.splits);
      EXPECT_EQ(gone.splits, expected);
    }
  }
}

TEST(Frontier, KeepsNoMoreThanTheChildrenOfOneSplitsStages) {
  Problem problem;
  problem.chain = random_chain(5, {.units = 16, .equal = true, .transfer_scale = 0.2});
  problem.ranks = 6;
  problem.candidates = {{"1f1b", 8}};
  const auto space = splits_of(problem, 0, false);
  const int64_t depth = int64_t{space->stages()} * space->units();
  const GoneThrough all = go_through(*space, never);
  for (const int few_from : {0, 100, 1000}) {
    const GoneThrough few = go_through(*space, few_from);
    EXPECT_LE(few.kept, few.kept_then + depth);
    EXPECT_LT(few.kept_then + depth, all.kept);
    EXPECT_EQ(static_cast<int64_t>(few.splits.size()), space->splits());
  }
}

}  // namespace
}  // namespace penstock::test
