// The least step of ranks that share units, and the ways to deal these out that are fast enough,
// against all choices of the units of all splits.
#include "planner/paths/shared_units.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <ranges>
#include <string>
#include <utility>

#include "planner/paths/full_ranks.hpp"
#include "planner/paths/program_paths.hpp"
#include "planner/paths/rank_paths.hpp"
#include "tests/planner/chains.hpp"
#include "tests/planner/paths/boxes.hpp"
#include "tests/planner/paths/path_cases.hpp"
#include "tests/planner/paths/whole_units.hpp"

namespace penstock::test {
namespace {

/// Paths of a program of two ranks with two stages each, and of each rank.
struct RankCase {
  ProgramPaths paths;
  SharedUnits shared;

  RankCase(const ChainCosts& costs, const std::string& schedule, WholeRecompute whole)
      : paths(compute_program(schedule, 2, four_stages.microbatches, 2),
              SplitTimes(costs, four_stages, RankSpeeds({1, 1}))),
        shared(paths.times(), rank_paths(paths),
               std::make_shared<const WholeRecompute>(std::move(whole)), 1) {}

  /// The longest path of a split, the least over all that its ranks may recompute.
  double step_s(const Units& units, const std::vector<int>& begins) const {
    const SplitTimes& of = paths.times();
    double least_s = misfit_s;
    for (const auto& [first_s, third_s] : units.least_of_stages(begins, 0)) {
      for (const auto& [second_s, fourth_s] : units.least_of_stages(begins, 1)) {
        Times times = of.of(begins);
        int stage = 0;
        for (const double longer_s : {first_s, second_s, third_s, fourth_s}) {
          times[of.at(SplitTime::input, stage)] += longer_s;
          times[of.at(SplitTime::first_input, stage++)] += longer_s;
        }
        least_s = std::min(least_s, paths.longest_s(times));
      }
    }
    return least_s;
  }
};

std::string schedule_of(uint32_t seed, const ChainCosts& costs) {
  if (!costs.weight_s.empty()) return "interleaved-zb";
  return seed % 2 == 0 ? "looped-bfs" : "interleaved-1f1b";
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
  int fitting = 0, sharper = 0, sharp = 0;
  for_each_units([&](uint32_t seed, const Units& units, std::mt19937& random) {
    const ChainCosts costs = random_costs(random, units.count(), seed);
    const RankCase one(costs, schedule_of(seed, costs), units.whole());
    double least_s = misfit_s, kept_s = misfit_s;
    for (const std::vector<int>& begins : all_splits(units.count(), 4)) {
      least_s = std::min(least_s, one.step_s(units, begins));
      kept_s = std::min(kept_s, one.paths.longest_s(one.paths.times().of(begins)));
    }
    const double bound_s = one.shared.step_s();
    EXPECT_LE(bound_s, least_s * (1 + rounding));
    if (least_s == misfit_s) return;
    ++fitting;
    sharper += bound_s > kept_s * (1 + rounding);
    sharp += bound_s > least_s * 0.95;
  });
  EXPECT_GT(fitting, 150);
  EXPECT_GT(sharper, 40);
  EXPECT_GT(sharp, 40);
}

TEST(SharedUnits, KeepWhatIsFastEnough) {
  int kept = 0, ruled_out = 0;
  for_each_units([&](uint32_t seed, const Units& units, std::mt19937& random) {
    const ChainCosts costs = random_costs(random, units.count(), seed);
    const RankCase one(costs, schedule_of(seed, costs), units.whole());
    std::map<std::vector<int>, double> step_s;
    for (const std::vector<int>& begins : all_splits(units.count(), 4)) {
      step_s[begins] = one.step_s(units, begins);
      EXPECT_LE(one.shared.split_s(begins), step_s[begins] * (1 + rounding));
    }
    const double most_s = std::ranges::min(step_s | std::views::values) * 1.2;
    if (most_s == misfit_s) return;
    SplitBox box = whole_box(units.count());
    const SharedUnits::Ways ways = one.shared.narrow(box, most_s);
    ASSERT_TRUE(tighten(box, {0, 1, 0, 1}, units.count()));
    for (const auto& [begins, seconds] : step_s) {
      bool known = holds(box, one.paths.times(), begins);
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

/// Every schedule and shape, with OPT and transfers: each rank alone, and pairs of full ones.
TEST(SharedUnits, NoSplitThatKeepsAllIsFaster) {
  int64_t asked = 0, sharp = 0, ruled_out = 0;
  for_each_path_case(800, 850, linked_chain, [&](const PathCase& one, std::mt19937_64& random) {
    const SplitTimes& times = one.paths->times();
    const SplitBox box = random_box(times.all(), random);
    double all_s = misfit_s, box_s = misfit_s;
    for (const std::vector<int>& begins : one.splits()) {
      const double step_s = one.simulated_s(begins);
      EXPECT_LE(one.paths->shared()->split_s(begins), step_s * (1 + rounding));
      all_s = std::min(all_s, step_s);
      if (holds(box, times, begins)) box_s = std::min(box_s, step_s);
    }
    const double bound_s = one.paths->shared()->step_s();
    EXPECT_LE(bound_s, all_s * (1 + rounding));
    sharp += bound_s > all_s * 0.95;
    if (box_s == misfit_s) return;
    ++asked;
    const auto none_is_faster = [&](double seconds) {
      return FullRanks(*one.paths).none_is_faster(box, seconds);
    };
    EXPECT_FALSE(none_is_faster(box_s * (1 + 1e-6)));
    ruled_out += none_is_faster(box_s * 0.9);
  });
  EXPECT_GT(asked, 200);
  EXPECT_GT(sharp, 100);
  EXPECT_GT(ruled_out, 50);
}

/// A forward takes a second, a backward two.
RankCase alike(size_t count, int64_t limit) {
  ChainCosts costs{.forward_s = std::vector<double>(count, 1),
                   .backward_s = std::vector<double>(count, 2)};
  costs.cut_forward_s = costs.cut_backward_s = std::vector<double>(count - 1, 0);
  return {costs, "looped-bfs", units_alike(count, limit).whole()};
}

/// Each of two ranks has three of six units, and recomputes one of them; four of them would have to
/// recompute all. The second begins behind one unit at least, and the first ends behind one.
TEST(SharedUnits, AreWhole) {
  EXPECT_DOUBLE_EQ(alike(6, 47).shared.step_s(), 1 + 4 * (3 * 3 + 1) + 2);
}

/// No rank can hold four.
TEST(SharedUnits, ThatDoNotFitTakeForever) { EXPECT_EQ(alike(7, 39).shared.step_s(), misfit_s); }

/// In looped-bfs the first rank's path passes the last stage once, there and back, between its last
/// forward and its first backward; the second rank's begins and ends in the first stage.
TEST(RankPaths, PassWhatOthersDoInBetween) {
  const RankCase one = alike(6, 47);
  const SplitTimes& times = one.paths.times();
  const auto passes = [&](const std::vector<Times>& of_rank, const std::vector<double>& often) {
    ASSERT_EQ(of_rank.size(), 1U);
    const Times& weights = of_rank.front();
    for (int stage = 0; stage < 4; ++stage) {
      const auto s = static_cast<size_t>(stage);
      EXPECT_EQ(weights[times.at(SplitTime::forward, stage)] +
                    weights[times.at(SplitTime::first_forward, stage)],
                often[s]);
      EXPECT_EQ(weights[times.at(SplitTime::input, stage)] +
                    weights[times.at(SplitTime::first_input, stage)],
                often[s]);
    }
  };
  const std::vector<std::vector<Times>> of_ranks = rank_paths(one.paths), own = own_paths(times, 4);
  ASSERT_EQ(of_ranks.size(), 2U);
  passes(of_ranks[0], {4, 0, 4, 1});
  passes(of_ranks[1], {1, 4, 0, 4});
  ASSERT_EQ(own.size(), 2U);
  passes(own[0], {4, 0, 4, 0});
  passes(own[1], {0, 4, 0, 4});
}

}  // namespace
}  // namespace penstock::test
