// The least recompute by numbers of units, and the least step of ranks that share them, against all
// choices of the units of all splits.
#include "planner/paths/whole_recompute.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include "planner/paths/shared_units.hpp"
#include "tests/planner/chains.hpp"

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

int units_of(const std::vector<int>& begins, int rank, int units) {
  const int first = begins[1], third = begins[3] - begins[2];
  return rank == 0 ? first + third : units - first - third;
}

double value_at(const WholeRecompute::Corners& corners, int units) {
  for (size_t i = 1; i < corners.size(); ++i) {
    const auto& [from, from_s] = corners[i - 1];
    const auto& [to, to_s] = corners[i];
    if (from <= units && units <= to)
      return from_s + (to_s - from_s) * (units - from) / (to - from);
  }
  return corners.empty() || corners.front().first != units ? misfit_s : corners.front().second;
}

/// By units, the least over all splits.
std::map<int, double> least_by_units(const Units& units, int rank) {
  std::map<int, double> least_s;
  for (const std::vector<int>& begins : all_splits(units.count(), 4)) {
    const auto known = least_s.try_emplace(units_of(begins, rank, units.count()), misfit_s).first;
    known->second = std::min(known->second, units.least_s(begins, rank));
  }
  return least_s;
}

TEST(WholeRecompute, NoRankFitsWithLess) {
  int fitting = 0, exact = 0, narrowed = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const Units units = random_units(random, seed % 2 == 0);
    const WholeRecompute whole = units.whole();
    SplitBox box = whole_box(units.count());
    whole.narrow(box);
    const std::vector<WholeRecompute::Corners> corners = whole.corners(box);
    for (int rank = 0; rank < 2; ++rank) {
      const auto r = static_cast<size_t>(rank);
      narrowed += box.ranks.high[r] < units.count() - 2;
      for (const auto& [count, least_s] : least_by_units(units, rank)) {
        if (least_s == misfit_s) continue;
        EXPECT_LE(box.ranks.low[r], count);
        EXPECT_GE(box.ranks.high[r], count);
        EXPECT_LE(value_at(corners[r], count), least_s + 1e-9);
        ++fitting;
      }
      if (seed % 2 != 0) continue;  // of units that are alike, at one moment, it is exact
      const std::map<int, double> known = least_by_units(units, rank);
      for (const auto& [count, least_s] : corners[r]) {
        EXPECT_NEAR(least_s, known.at(count), 1e-9);
        exact += least_s > 0;
      }
    }
  }
  EXPECT_GT(fitting, 500);
  EXPECT_GT(exact, 100);
  EXPECT_GT(narrowed, 50);
}

/// They differ in nothing; both ranks hold one microbatch of each stage at once.
Units units_alike(size_t count, int64_t limit) {
  return {.own = std::vector<int64_t>(count, 10),
          .saved = std::vector<int64_t>(count, 8),
          .seconds = std::vector<double>(count, 1.0),
          .moments = {{0, {1, 0, 1, 0}, {0, 0, 0, 0}}, {1, {0, 1, 0, 1}, {0, 0, 0, 0}}},
          .limits = {limit, limit}};
}

/// Three units of a rank need to recompute one, four all.
TEST(WholeRecompute, IsOfWholeUnits) {
  const WholeRecompute whole = units_alike(6, 47).whole();
  SplitBox box = whole_box(6);
  whole.narrow(box);
  const WholeRecompute::Corners expected{{2, 0}, {3, 1}, {4, 4}};
  EXPECT_EQ(whole.corners(box), (std::vector<WholeRecompute::Corners>{expected, expected}));
}

/// A mixture of splits in which a rank has three and a half units recomputes less than the mean of
/// what three and four take.
TEST(WholeRecompute, PricesWhatAMeanOfUnitsLacks) {
  const WholeRecompute whole = Units{
      .own = {1, 1, 1, 1, 1, 1, 1},
      .saved = {1, 1, 1, 1, 1, 1, 1},
      .seconds = {1, 1, 1, 1, 1, 1, 1},
      .moments = {},
      .limits = {9, 9}}.whole();
  const std::vector<WholeRecompute::Corners> corners{{{2, 0}, {3, 1}, {4, 4}}, {}};
  const std::vector<double> units{2, 2, 1.5, 1.5}, owed{0, 0};
  EXPECT_TRUE(whole.broken(corners, units, {1.5, 0, 1.0, 0}, owed, 1).empty());
  const auto broken = whole.broken(corners, units, {1.5, 0, 0.9, 0}, owed, 1);
  ASSERT_EQ(broken.size(), 1U);
  EXPECT_EQ(broken[0].rank, 0);
  EXPECT_EQ(broken[0].unit, (std::vector<double>{12, 0, 12, 0}));  // 4 microbatches x 3 s a unit
  EXPECT_EQ(broken[0].second, (std::vector<double>{4, 0, 4, 0}));
  EXPECT_DOUBLE_EQ(12 * 3.5 - broken[0].limit, 4 * 2.5);
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

TEST(SharedUnits, NoSplitIsFaster) {
  int fitting = 0, sharper = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const Units units = random_units(random, seed % 2 == 0);
    ChainCosts costs;
    const auto draw = [&] { return seed % 4 < 2 ? 1.0 : static_cast<double>(1 + random() % 5); };
    for (int unit = 0; unit < units.count(); ++unit) {
      costs.forward_s.push_back(draw());
      costs.backward_s.push_back(draw());
      if (seed % 3 == 0) costs.weight_s.push_back(draw());
    }
    costs.cut_forward_s = costs.cut_backward_s =
        std::vector<double>(static_cast<size_t>(units.count()) - 1, 0.0);
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
