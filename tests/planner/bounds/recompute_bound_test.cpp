// The bound against every set of units.
#include "planner/bounds/recompute_bound.hpp"

#include <gtest/gtest.h>

#include <random>

namespace penstock {
namespace {

TEST(RecomputeBound, IsNeverAboveAnySetOfUnitsThatFreesAsMuch) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 500; ++round) {
    std::vector<RecomputeBound::Unit> units(1 + random() % 7);
    for (RecomputeBound::Unit& unit : units) {
      unit = {static_cast<double>(random() % 10), static_cast<double>(random() % 10)};
    }
    const RecomputeBound bound(units);
    for (unsigned set = 0; set < 1U << units.size(); ++set) {
      double seconds = 0, bytes = 0;
      for (size_t i = 0; i < units.size(); ++i) {
        if ((set >> i & 1U) == 0) continue;
        seconds += units[i].forward_s;
        bytes += units[i].bytes;
      }
      ASSERT_LE(bound.seconds(bytes), seconds * (1 + 1e-12));
    }
  }
}

TEST(RecomputeBound, TakesTheCheapestBytesFirstAndPartsOfUnits) {
  const RecomputeBound bound({{.forward_s = 8, .bytes = 4}, {.forward_s = 1, .bytes = 2}});
  EXPECT_EQ(bound.seconds(0), 0);
  EXPECT_EQ(bound.seconds(1), 0.5);
  EXPECT_EQ(bound.seconds(3), 1 + 2);
  EXPECT_EQ(bound.seconds(100), 9);
}

}  // namespace
}  // namespace penstock
