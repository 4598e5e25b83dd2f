// Planes below ways to deal units out, against the ways and mixtures of two of them.
#include "planner/paths/dealt_hull.hpp"

#include <gtest/gtest.h>

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
