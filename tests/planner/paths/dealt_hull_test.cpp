// Planes below ways to deal units out, against the ways and mixtures of two of them.
#include "planner/paths/dealt_hull.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace penstock::test {
namespace {

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

/// Facets of all ways may be none of fewer ways. They hold within weights of 1e-9, three of which
/// change a plane's value by less than 110 each.
TEST(DealtHull, KnownFacetsChangeNothing) {
  std::mt19937 random(8);
  const auto draw = [&](int most) { return static_cast<int>(1 + random() % most); };
  size_t known = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<DealtHull::Way> ways;
    for (int a = draw(2); a <= 3; ++a)
      for (int b = draw(2); b <= 3; ++b) ways.push_back({{a, b}, static_cast<double>(draw(10))});
    DealtHull all(ways, 50);
    const auto value = [&](DealtHull& hull, const std::vector<double>& units) {
      const DealtHull::Plane plane = hull.below(units);
      return std::inner_product(units.begin(), units.end(), plane.slopes.begin(), plane.at_none);
    };
    const auto mean = [&] { return std::vector<double>{draw(16) / 4.0, draw(16) / 4.0}; };
    for (int i = 0; i < 20; ++i) {
      const std::vector<double> units = mean();
      DealtHull fresh(ways, 50);
      EXPECT_NEAR(value(all, units), value(fresh, units), 3 * 1e-9 * 110);
    }
    std::ranges::shuffle(ways, random);
    ways.resize((ways.size() + 1) / 2);
    DealtHull fewer(ways, 50, all.facets());
    known += fewer.facets().size();
    for (int i = 0; i < 20; ++i) {
      const std::vector<double> units = mean();
      DealtHull fresh(ways, 50);
      EXPECT_NEAR(value(fewer, units), value(fresh, units), 3 * 1e-9 * 110);
    }
  }
  EXPECT_GT(known, 100);
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

}  // namespace
}  // namespace penstock::test
