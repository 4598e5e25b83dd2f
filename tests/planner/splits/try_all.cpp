#include "tests/planner/splits/try_all.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/planner/chains.hpp"
#include "tests/planner/splits/in_blocks.hpp"

namespace penstock::test {

Key key(size_t space, const std::vector<int>& begins, const SplitOutcome& outcome) {
  return {std::llround(outcome.step_s * 1e9), outcome.peak_bytes, space, begins};
}

Key key(const FoundSplit& found) { return key(found.space, found.begins, found.outcome); }

std::vector<std::vector<int>> all_begins(const SplitSpace& space) {
  std::vector<std::vector<int>> all;
  std::vector<int> begins{0};
  const std::function<void(int)> go_on = [&](int left) {
    if (left == 0) {
      all.emplace_back(begins.begin(), begins.end() - 1);
      return;
    }
    for (const int end : space.ends(begins.back(), left)) {
      begins.push_back(end);
      go_on(left - 1);
      begins.pop_back();
    }
  };
  go_on(space.stages());
  return all;
}

std::optional<Key> try_all(const LayoutSearch& search) {
  std::optional<Key> best;
  const std::vector<SearchSpace> spaces = spaces_of(search.blocks({}));
  for (size_t i = 0; i < search.layouts().size(); ++i) {
    const PipelineLayout layout = search.layouts()[i];
    const auto space = search.open(layout);
    if (!space) continue;
    for (const std::vector<int>& begins : all_begins(space->splits())) {
      const SplitOutcome run = space->simulate(begins, {});
      if (run.peak_bytes > search.limit(layout).max_bytes) continue;
      const double room = run.step_s * (1 + rounding);
      EXPECT_LE(space->splits().split_s(begins), room);
      EXPECT_LE(space->splits().min_s(), room);
      EXPECT_LE(spaces[i].bound_s, room);
      const Key one = key(i, begins, run);
      if (!best || one < *best) best = one;
    }
  }
  return best;
}

}  // namespace penstock::test
