// The least recompute by numbers of units, and the least step of ranks that share them, against all
// choices of the units of all splits.
#include "planner/paths/whole_recompute.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <ranges>

#include "planner/paths/shared_units.hpp"
#include "tests/planner/chains.hpp"
#include "tests/planner/paths/boxes.hpp"

namespace penstock::test {
namespace {

constexpr double misfit_s = std::numeric_limits<double>::infinity();

const Placement four_stages{
    .ranks = 2, .microbatches = 4, .rank_of_stage = {0, 1, 0, 1}, .held = {}};

/// Units on two ranks of two stages each, each of which may recompute what it saves.
struct Units {
  std::vector<int64_t> own, saved;
  std::vector<double> seconds;
  std::vector<HeldAtOnce> moments;
  std::vector<int64_t> limits;

  int count() const { return static_cast<int>(own.size()); }

  WholeRecompute whole() const {
    auto bytes = std::make_shared<StageTable>(count());
    for (int begin = 0; begin < count(); ++begin)
      for (int end = begin + 1; end <= count(); ++end)
        for (auto unit = static_cast<size_t>(begin); unit < static_cast<size_t>(end); ++unit) {
          bytes->at(begin, end).always += own[unit];
          bytes->at(begin, end).per_microbatch += saved[unit];
        }
    std::vector<LayerChoices> choices;
    for (size_t unit = 0; unit < own.size(); ++unit)
      choices.push_back({{seconds[unit], saved[unit]}});
    return {bytes, choices, {}, four_stages, RankSpeeds({1, 1}), moments, limits};
  }

  /// The least over all sets of units of a rank that recompute; infinite where nothing fits.
  double least_s(const std::vector<int>& begins, int rank) const {
    std::vector<std::pair<size_t, size_t>> mine;  // unit and stage
    for (size_t stage = static_cast<size_t>(rank); stage < 4; stage += 2) {
      const int end = stage < 3 ? begins[stage + 1] : count();
      for (int unit = begins[stage]; unit < end; ++unit)
        mine.emplace_back(static_cast<size_t>(unit), stage);
    }
    double least_s = misfit_s;
    for (unsigned set = 0; set < 1U << mine.size(); ++set) {
      double again_s = 0;
      for (size_t i = 0; i < mine.size(); ++i)
        if (set >> i & 1) again_s += seconds[mine[i].first];
      if (again_s < least_s && fits(mine, set, rank)) least_s = again_s;
    }
    return least_s;
  }

  bool fits(const std::vector<std::pair<size_t, size_t>>& mine, unsigned set, int rank) const {
    return std::ranges::all_of(moments, [&](const HeldAtOnce& moment) {
      int64_t bytes = 0;
      for (size_t i = 0; i < mine.size(); ++i) {
        const auto& [unit, stage] = mine[i];
        bytes += own[unit] + ((set >> i & 1) ? 0 : moment.held[stage] * saved[unit]);
      }
      return moment.rank != rank || bytes <= limits[static_cast<size_t>(rank)];
    });
  }
};

Units random_units(std::mt19937& random, bool alike) {
  Units units;
  const auto draw = [&](int most) { return static_cast<int64_t>(1 + random() % most); };
  for (int64_t unit = 5 + draw(3); unit > 0; --unit) {
    const bool as_before = alike && !units.own.empty();
    units.own.push_back(as_before ? units.own.back() : draw(10));
    units.saved.push_back(as_before ? units.saved.back() : draw(10));
    units.seconds.push_back(as_before ? units.seconds.back() : static_cast<double>(draw(5)));
  }
  for (int rank = 0; rank < 2; ++rank) {
    for (int moment = alike ? 1 : 0; moment < 2; ++moment) {
      HeldAtOnce held{rank, std::vector<int>(4, 0), std::vector<int>(4, 0)};
      for (size_t stage = static_cast<size_t>(rank); stage < 4; stage += 2)
        held.held[stage] = static_cast<int>(draw(4));
      units.moments.push_back(std::move(held));
    }
    units.limits.push_back(20 + draw(50));
  }
  return units;
}

SplitBox whole_box(int units) {
  SplitBox box{{{0, 1, 2, 3}, {0, units - 3, units - 2, units - 1}},
               {{1, 1, 1, 1}, {units, units, units, units}},
               {{2, 2}, {units, units}}};
  EXPECT_TRUE(tighten(box, {0, 1, 0, 1}, units));
  return box;
}

/// Units of the two stages of a rank.
std::vector<int> dealt(const std::vector<int>& begins, int rank, int units) {
  const auto end = [&](size_t stage) { return stage < 3 ? begins[stage + 1] : units; };
  const auto first = static_cast<size_t>(rank);
  return {end(first) - begins[first], end(first + 2) - begins[first + 2]};
}

/// By ways to deal units out to the stages of a rank, the least over all splits.
std::map<std::vector<int>, double> least_by_ways(const Units& units, int rank) {
  std::map<std::vector<int>, double> least_s;
  for (const std::vector<int>& begins : all_splits(units.count(), 4)) {
    const auto known = least_s.try_emplace(dealt(begins, rank, units.count()), misfit_s).first;
    known->second = std::min(known->second, units.least_s(begins, rank));
  }
  return least_s;
}

TEST(WholeRecompute, NoRankFitsWithLess) {
  int fitting = 0, exact = 0, ruled_out = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const Units units = random_units(random, seed % 2 == 0);
    const WholeRecompute whole = units.whole();
    for (size_t rank = 0; rank < 2; ++rank) {
      std::map<std::vector<int>, double> found_s;
      EXPECT_TRUE(whole.each_way(rank, whole_box(units.count()), [&](const std::vector<int>& way) {
        found_s[way] = whole.seconds(rank, way);
      }));
      for (const auto& [way, least_s] : least_by_ways(units, static_cast<int>(rank))) {
        ruled_out += !found_s.contains(way);
        if (least_s == misfit_s) continue;
        ASSERT_TRUE(found_s.contains(way));
        EXPECT_LE(found_s[way], least_s + 1e-9);
        ++fitting;
        if (seed % 2 != 0) continue;  // of units that are alike, at one moment, it is exact
        EXPECT_NEAR(found_s[way], least_s, 1e-9);
        exact += least_s > 0;
      }
    }
  }
  EXPECT_GT(fitting, 500);
  EXPECT_GT(exact, 100);
  EXPECT_GT(ruled_out, 50);
}

/// They differ in nothing; both ranks hold one microbatch of each stage at once.
Units units_alike(size_t count, int64_t limit) {
  return {.own = std::vector<int64_t>(count, 10),
          .saved = std::vector<int64_t>(count, 8),
          .seconds = std::vector<double>(count, 1.0),
          .moments = {{0, {1, 0, 1, 0}, {0, 0, 0, 0}}, {1, {0, 1, 0, 1}, {0, 0, 0, 0}}},
          .limits = {limit, limit}};
}

/// A mixture of splits in which a rank has three and a half units recomputes less than the mean of
/// what three and four take.
TEST(WholeRecompute, PricesWhatAMeanOfUnitsLacks) {
  const WholeRecompute whole = units_alike(7, 47).whole();
  std::vector<std::optional<DealtHull>> hulls(2);
  hulls[0].emplace(std::vector<DealtHull::Way>{{{1, 1}, 0}, {{1, 2}, 1}, {{2, 1}, 1}, {{2, 2}, 4}},
                   100);
  const std::vector<double> units{2, 2, 1.5, 1.5}, owed{0, 0};
  EXPECT_TRUE(whole.broken(hulls, units, {1.5, 0, 1.0, 0}, owed, 1).empty());
  const auto broken = whole.broken(hulls, units, {1.5, 0, 0.9, 0}, owed, 1);
  ASSERT_EQ(broken.size(), 1U);
  EXPECT_EQ(broken[0].rank, 0);
  EXPECT_EQ(broken[0].second, (std::vector<double>{4, 0, 4, 0}));
  const std::vector<double>& unit = broken[0].unit;  // 4 microbatches x 3 s a unit of the second
  EXPECT_NEAR(unit[2], 12, 1e-9);
  EXPECT_NEAR(unit[0] * 2 + unit[2] * 1.5 - broken[0].limit, 4 * 2.5, 1e-9);
}

/// No way lies below a plane, nor does any mixture of two.
TEST(DealtHull, IsBelowAllMixtures) {
  std::mt19937 random(7);
  const auto draw = [&](int most) { return static_cast<int>(1 + random() % most); };
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<DealtHull::Way> ways;
    for (int count = draw(9); count > 0; --count)
      ways.push_back({{draw(4), draw(4), draw(4)}, static_cast<double>(draw(10))});
    const DealtHull::Way& one = ways[random() % ways.size()];
    const DealtHull::Way& other = ways[random() % ways.size()];
    std::vector<double> middle;
    for (size_t stage = 0; stage < 3; ++stage)
      middle.push_back((one.units[stage] + other.units[stage]) / 2.0);
    const DealtHull::Plane plane = DealtHull(ways, 50).below(middle);
    const auto at = [&](const auto& units) {
      return std::inner_product(units.begin(), units.end(), plane.slopes.begin(), plane.at_none);
    };
    for (const DealtHull::Way& way : ways) EXPECT_LE(at(way.units), way.seconds + 1e-9);
    EXPECT_LE(at(middle), (one.seconds + other.seconds) / 2 + 1e-9);
  }
}

/// With one stage it is the lower convex hull of points. Beside them it rises as steeply as it may.
TEST(DealtHull, TouchesTheLowestWays) {
  DealtHull hull({{{2}, 0}, {{3}, 3}, {{4}, 4}, {{6}, 12}}, 50);
  const auto value = [&](double units) {
    const DealtHull::Plane plane = hull.below({units});
    return plane.at_none + plane.slopes[0] * units;
  };
  EXPECT_NEAR(value(2), 0, 1e-9);
  EXPECT_NEAR(value(3), 2, 1e-9);
  EXPECT_NEAR(value(5), 8, 1e-9);
  EXPECT_NEAR(value(7), 12 + 50, 1e-9);
  EXPECT_NEAR(value(1), 50, 1e-9);
}

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
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const Units units = random_units(random, seed % 2 == 0);
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
  }
  EXPECT_GT(fitting, 150);
  EXPECT_GT(sharper, 40);
}

TEST(SharedUnits, KeepWhatIsFastEnough) {
  int kept = 0, ruled_out = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const Units units = random_units(random, seed % 2 == 0);
    const ChainCosts costs = random_costs(random, units.count(), seed);
    const auto whole = std::make_shared<const WholeRecompute>(units.whole());
    const SharedUnits shared(costs, four_stages, RankSpeeds({1, 1}), whole, 4);
    std::map<std::vector<int>, double> step_s;
    for (const std::vector<int>& begins : all_splits(units.count(), 4)) {
      step_s[begins] = std::max(load_s(units, costs, begins, 0), load_s(units, costs, begins, 1));
      EXPECT_LE(shared.split_s(begins), step_s[begins] * (1 + rounding));
    }
    const double most_s = std::ranges::min(step_s | std::views::values) * 1.2;
    if (most_s == misfit_s) continue;
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
  }
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
