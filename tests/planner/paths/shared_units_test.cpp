// The least step of ranks that share units, and the ways to deal these out that are fast enough,
// against all choices of the units of all splits.
#include "planner/paths/shared_units.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <ranges>

#include "tests/planner/chains.hpp"
#include "tests/planner/paths/boxes.hpp"
#include "tests/planner/paths/whole_units.hpp"

namespace penstock::test {
namespace {

/// The rank of a split by itself: its head, its work with the least recompute, its tail.
double load_s(const Units& units, const ChainCosts& costs, const std::vector<int>& begins,
              int rank) {
  double inputs_s = 0, weights_s = 0;
  for (size_t stage = static_cast<size_t>(rank); stage < 4; stage += 2) {
    const int end = stage < 3 ? begins[stage + 1] : units.count();
    for (auto unit = static_cast<size_t>(begins[stage]); unit < static_cast<size_t>(end); ++unit) {
      inputs_s += costs.forward_s[unit] + costs.backward_s[unit];
      weights_s += costs.weight_s.empty() ? 0 : costs.weight_s[unit];
    }
  }
  double head_s = 0, tail_s = 0;
  for (size_t unit = 0; rank == 1 && unit < static_cast<size_t>(begins[1]); ++unit) {
    head_s += costs.forward_s[unit];
    tail_s += costs.backward_s[unit];
  }
  const double microbatches = four_stages.microbatches;
  return head_s + microbatches * (inputs_s + units.least_s(begins, rank)) +
         std::max(tail_s, microbatches * weights_s);
}

ChainCosts random_costs(std::mt19937& random, int units, uint32_t seed) {
  ChainCosts costs;
  const auto draw = [&] { return seed % 4 < 2 ? 1.0 : static_cast<double>(1 + random() % 5); };
  for (int unit = 0; unit < units; ++unit) {
    costs.forward_s.push_back(draw());
    costs.backward_s.push_back(draw());
    if (seed % 3 == 0) costs.weight_s.push_back(draw());
  }
  costs.cut_forward_s = costs.cut_backward_s =
      std::vector<double>(static_cast<size_t>(units) - 1, 0.0);
  return costs;
}

TEST(SharedUnits, NoSplitIsFaster) {
  int fitting = 0, sharper = 0;
  for_each_units([&](uint32_t seed, const Units& units, std::mt19937& random) {
    const ChainCosts costs = random_costs(random, units.count(), seed);
    double least_s = misfit_s, kept_s = misfit_s;
    Units roomy = units;
    roomy.limits = {1000, 1000};
    for (const std::vector<int>& begins : all_splits(units.count(), 4)) {
      const auto of = [&](const Units& some) {
        return std::max(load_s(some, costs, begins, 0), load_s(some, costs, begins, 1));
      };
      least_s = std::min(least_s, of(units));
      kept_s = std::min(kept_s, of(roomy));
    }
    const auto whole = std::make_shared<const WholeRecompute>(units.whole());
    const double bound_s =
        SharedUnits(costs, four_stages, RankSpeeds({1, 1}), whole, four_stages.microbatches)
            .step_s();
    EXPECT_LE(bound_s, least_s * (1 + rounding));
    fitting += least_s < misfit_s;
    sharper += least_s < misfit_s && bound_s > kept_s * (1 + rounding);
  });
  EXPECT_GT(fitting, 150);
  EXPECT_GT(sharper, 40);
}

TEST(SharedUnits, KeepWhatIsFastEnough) {
  int kept = 0, ruled_out = 0;
  for_each_units([&](uint32_t seed, const Units& units, std::mt19937& random) {
    const ChainCosts costs = random_costs(random, units.count(), seed);
    const auto whole = std::make_shared<const WholeRecompute>(units.whole());
    const SharedUnits shared(costs, four_stages, RankSpeeds({1, 1}), whole, 4);
    std::map<std::vector<int>, double> step_s;
    for (const std::vector<int>& begins : all_splits(units.count(), 4)) {
      step_s[begins] = std::max(load_s(units, costs, begins, 0), load_s(units, costs, begins, 1));
      EXPECT_LE(shared.split_s(begins), step_s[begins] * (1 + rounding));
    }
    const double most_s = std::ranges::min(step_s | std::views::values) * 1.2;
    if (most_s == misfit_s) return;
    const SplitTimes times(costs, four_stages, RankSpeeds({1, 1}));
    SplitBox box = whole_box(units.count());
    const SharedUnits::Ways ways = shared.narrow(box, most_s);
    ASSERT_TRUE(tighten(box, {0, 1, 0, 1}, units.count()));
    for (const auto& [begins, seconds] : step_s) {
      bool known = holds(box, times, begins);
      for (int rank = 0; rank < 2; ++rank)
        known =
            known && std::ranges::any_of(*ways[static_cast<size_t>(rank)], [&](const auto& way) {
              return way.units == dealt(begins, rank, units.count());
            });
      EXPECT_TRUE(known || seconds > most_s * (1 - rounding));
      kept += known;
      ruled_out += !known;
    }
  });
  EXPECT_GT(kept, 300);
  EXPECT_GT(ruled_out, 300);
}

/// A forward takes a second, a backward two.
double step_of_alike_s(size_t count, int64_t limit) {
  ChainCosts costs{.forward_s = std::vector<double>(count, 1),
                   .backward_s = std::vector<double>(count, 2)};
  costs.cut_forward_s = costs.cut_backward_s = std::vector<double>(count - 1, 0);
  const auto whole = std::make_shared<const WholeRecompute>(units_alike(count, limit).whole());
  return SharedUnits(costs, four_stages, RankSpeeds({1, 1}), whole, 4).step_s();
}

/// Each of two ranks has three of six units, and recomputes one of them; four of them would have to
/// recompute all. The second begins behind one unit at least.
TEST(SharedUnits, AreWhole) { EXPECT_DOUBLE_EQ(step_of_alike_s(6, 47), 1 + 4 * (3 * 3 + 1) + 2); }

/// No rank can hold four.
TEST(SharedUnits, ThatDoNotFitTakeForever) { EXPECT_EQ(step_of_alike_s(7, 39), misfit_s); }

}  // namespace
}  // namespace penstock::test
