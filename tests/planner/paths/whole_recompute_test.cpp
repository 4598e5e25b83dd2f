// The least recompute by ways to deal units out to stages, against all choices of the units of all
// splits.
#include "planner/paths/whole_recompute.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>

#include "tests/planner/chains.hpp"
#include "tests/planner/paths/whole_units.hpp"

namespace penstock::test {
namespace {

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
  int fitting = 0, exact = 0, bounded = 0, ruled_out = 0;
  for_each_units([&](uint32_t seed, const Units& units, std::mt19937&) {
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
        EXPECT_LE(whole.at_least_s(rank, way), least_s + 1e-9);
        bounded += whole.at_least_s(rank, way) > least_s / 2;
        ++fitting;
        if (seed % 2 != 0) continue;  // of units that are alike, at one moment, it is exact
        EXPECT_NEAR(found_s[way], least_s, 1e-9);
        exact += least_s > 0;
      }
    }
  });
  EXPECT_GT(fitting, 500);
  EXPECT_GT(exact, 100);
  EXPECT_GT(bounded, 100);
  EXPECT_GT(ruled_out, 50);
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

}  // namespace
}  // namespace penstock::test
