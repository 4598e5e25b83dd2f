// A snapshot overwrites nothing that a run goes on with, or that a checkpoint is written from.
#include "launch/supervision/rotation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Rotation, OverwritesTheOlderOfTwo) {
  EXPECT_EQ(slot_for_next({{-1, -1, -1}, {}}), 0);
  EXPECT_EQ(slot_for_next({{4, -1, -1}, {}}), 1);
  EXPECT_EQ(slot_for_next({{4, 5, -1}, {}}), 0);
  EXPECT_EQ(slot_for_next({{6, 5, -1}, {}}), 1);
  EXPECT_THAT(idle_slots({{6, -1, -1}, {}}, 1), ElementsAre(2));
}

TEST(Rotation, TakesAThirdWhereOneIsToBeSavedAndWaitsWhereMoreAre) {
  EXPECT_EQ(slot_for_next({{4, 5, -1}, {true, false, false}}), 2);
  EXPECT_THAT(idle_slots({{4, 5, -1}, {true, false, false}}, 2), IsEmpty());
  EXPECT_EQ(slot_for_next({{4, 5, 6}, {true, false, false}}), 1);
  EXPECT_EQ(slot_for_next({{4, 5, 6}, {true, true, false}}), std::nullopt);
  EXPECT_EQ(slot_for_next({{4, 5, 6}, {true, true, true}}), std::nullopt);
}

TEST(Rotation, GivesTheThirdBack) {
  const RankSlots saved{{4, 5, 6}, {}};
  EXPECT_EQ(slot_for_next(saved), 1);
  EXPECT_THAT(idle_slots(saved, 1), ElementsAre(0));
}

TEST(StepToSave, IsTheEarliestOnceAllRanksHaveIt) {
  const RankSlots first{{4, 5, 6}, {true, false, true}}, replica{{5, 6, -1}, {}};
  EXPECT_EQ(step_to_save({first, first}), 4);
  EXPECT_EQ(step_to_save({first, replica}), 4);
  const RankSlots behind{{3, 2, -1}, {}};
  EXPECT_EQ(step_to_save({first, behind}), std::nullopt);
  EXPECT_EQ(step_to_save({replica, behind}), std::nullopt);
}

TEST(SlotWith, IsNoneWhereNoneHasIt) {
  EXPECT_EQ(slot_with({4, 5, -1}, 5), 1);
  EXPECT_EQ(slot_with({4, 5, -1}, 3), std::nullopt);
}

}  // namespace
}  // namespace penstock
