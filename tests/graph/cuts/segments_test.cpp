#include "graph/cuts/segments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using ::testing::ElementsAre;

/// Ten operators in units [0, 3) [3, 6) [6, 10); stage 1 owns two intervals.
Slicing two_stages() {
  Slicing slicing;
  slicing.stage_of_operator = {0, 0, 1, 1, 1, 0, 0, 0, 1, 1};
  slicing.stages.resize(2);
  return slicing;
}
const std::vector<Unit> units{{0, 3, ""}, {3, 6, "b"}, {6, 10, "c"}};

TEST(Segments, AWholeStageReachesFromItsFirstToItsLastOperator) {
  EXPECT_THAT(whole_stage(two_stages(), 0), ElementsAre(Segment{0, 8}));
  EXPECT_THAT(whole_stage(two_stages(), 1), ElementsAre(Segment{2, 10}));
}

TEST(Segments, UnitsOfAStageAreThoseThatItHasOperatorsOf) {
  EXPECT_THAT(units_of_stages(two_stages(), units),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(0, 1, 2)));
  Slicing last = two_stages();
  last.stage_of_operator = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1};
  EXPECT_THAT(units_of_stages(last, units), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(2)));
}

}  // namespace
}  // namespace penstock
