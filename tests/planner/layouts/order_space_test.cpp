// Bounds of splits for any order of actions against the programs that `adaptive` makes: every split
// of small random chains, on ranks of equal and of unequal speed.
#include "planner/layouts/order_space.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "tests/planner/chains.hpp"

namespace penstock::test {
namespace {

Placement looped(int stages, int ranks, int microbatches) {
  Placement placement{.ranks = ranks,
                      .microbatches = microbatches,
                      .rank_of_stage = {},
                      .held = std::vector<int>(static_cast<size_t>(stages), 0)};
  for (int stage = 0; stage < stages; ++stage) placement.rank_of_stage.push_back(stage % ranks);
  return placement;
}

TEST(OrderSpace, NoProgramIsFasterAndItKnowsMoreThanPrefixes) {
  std::mt19937_64 random(7);
  int64_t checked = 0, sharper = 0, reached = 0;
  for (uint64_t seed = 5000; seed < 5120; ++seed) {
    const Chain chain = small_chain(seed);
    const ChainCosts costs = split_costs(chain, true);
    const int ranks = 2 + static_cast<int>(seed % 2);
    for (int stages = ranks; stages <= costs.units(); ++stages) {
      const Placement placement = looped(stages, ranks, 1 + static_cast<int>(seed / 3 % 5));
      std::vector<double> speeds(static_cast<size_t>(ranks), 1.0);
      if (seed % 4 == 0) speeds = random_speeds(random, ranks);
      speeds[0] = 1;  // the costs are for the fastest
      const auto prefixes = [&] {
        return std::make_unique<PlacedSpace>(costs, bytes_of(chain), placement, RankSpeeds(speeds));
      };
      const OrderSpace space(prefixes(), costs, placement, RankSpeeds(speeds));
      for (const std::vector<int>& begins : all_splits(costs.units(), stages)) {
        const double step_s = simulate_adaptive(chain, begins, placement, speeds).makespan_s;
        const double bound_s = space.split_s(begins), before_s = prefixes()->split_s(begins);
        ASSERT_LE(bound_s, step_s * (1 + rounding)) << "seed " << seed;
        ++checked;
        sharper += bound_s > before_s * (1 + rounding);
        reached += bound_s >= step_s * (1 - 1e-9);
      }
    }
  }
  EXPECT_GT(checked, 1000);
  EXPECT_GT(sharper, checked / 4);
  EXPECT_GT(reached, checked / 10);
}

}  // namespace
}  // namespace penstock::test
