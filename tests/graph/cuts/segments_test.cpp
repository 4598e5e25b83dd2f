#include "graph/cuts/segments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Ten operators in units [0, 3) [3, 6) [6, 10); stage 1 owns two intervals.
Slicing two_stages() {
  Slicing slicing;
  slicing.stage_of_operator = {0, 0, 1, 1, 1, 0, 0, 0, 1, 1};
  slicing.stages.resize(2);
  return slicing;
}
const std::vector<OperatorId> unit_begins{0, 3, 6};

TEST(Segments, AWholeStageReachesFromItsFirstToItsLastOperator) {
  EXPECT_THAT(whole_stage(two_stages(), 0), ElementsAre(Segment{0, 8}));
  EXPECT_THAT(whole_stage(two_stages(), 1), ElementsAre(Segment{2, 10}));
}

TEST(Segments, UnitsCountFromTheFirstThatTheStageHasOperatorsOf) {
  EXPECT_THAT(first_units(two_stages(), 1, unit_begins, 0), IsEmpty());
  EXPECT_THAT(first_units(two_stages(), 1, unit_begins, 2),
              ElementsAre(Segment{0, 3}, Segment{3, 6}));
  Slicing last = two_stages();
  last.stage_of_operator = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1};
  EXPECT_THAT(first_units(last, 1, unit_begins, 1), ElementsAre(Segment{6, 10}));
}

TEST(Segments, ThereAreNoMoreThanTheStageHas) {
  EXPECT_THAT(units_of_stages(two_stages(), unit_begins), ElementsAre(3, 3));
  Slicing last = two_stages();
  last.stage_of_operator = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1};
  EXPECT_THAT(units_of_stages(last, unit_begins), ElementsAre(3, 1));
  EXPECT_EQ(first_units(two_stages(), 0, unit_begins, 7).size(), 3u);
}

}  // namespace
}  // namespace penstock
