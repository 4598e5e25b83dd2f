// Ranks of lost supervisors go to spares, with snapshots that somebody has: their own, or those of
// ranks that are alike.
#include "launch/supervision/succession.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <ostream>

namespace penstock {

void PrintTo(const Handover& one, std::ostream* out) {
  *out << "{" << one.from << ", " << one.held << ", " << one.to << ", " << one.rank << "}";
}

namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

const Assignment kThree{{0, 0}, {1, 1}, {2, 2}};

TEST(Assign, LeavesRanksWhereTheyAreAndGivesThoseOfLostProcessesToSparesInOrder) {
  EXPECT_EQ(assign(kThree, {0, 1, 2, 3}), kThree);
  EXPECT_EQ(assign(kThree, {0, 2, 3, 4}), (Assignment{{0, 0}, {1, 3}, {2, 2}}));
  EXPECT_EQ(assign(kThree, {0, 3, 4}), (Assignment{{0, 0}, {1, 3}, {2, 4}}));
  EXPECT_EQ(assign({{0, 0}, {1, 3}, {2, 2}}, {0, 2, 4}), (Assignment{{0, 0}, {1, 4}, {2, 2}}));
}

TEST(Assign, NeedsASpareForEach) {
  EXPECT_EQ(assign(kThree, {0, 2}), std::nullopt);
  EXPECT_EQ(assign(kThree, {0, 3}), std::nullopt);
}

TEST(StepsOfRanks, AreThoseOfAnyHolder) {
  const HeldByProcess holders{{0, {{0, {4, 5}}}}, {1, {{1, {5, 6}}, {0, {6}}}}, {3, {{3, {7}}}}};
  EXPECT_THAT(steps_of_ranks(holders, 4, 0),
              ElementsAre(StepsHeld{4, 5, 6}, StepsHeld{5, 6}, StepsHeld{}, StepsHeld{7}));
}

TEST(StepsOfRanks, AreAnothersWhereNoneOfTheirOwnIsLeft) {
  const HeldByProcess holders{{0, {{0, {4, 5}}}}, {1, {{1, {4}}}}, {3, {{3, {4, 5}}}}};
  EXPECT_THAT(steps_of_ranks(holders, 4, 2),
              ElementsAre(StepsHeld{4, 5}, StepsHeld{4}, StepsHeld{4, 5}, StepsHeld{4, 5}));
}

TEST(Handovers, AreOfWhatSomebodyLacks) {
  const HeldByProcess copied{{0, {{0, {4, 5}}, {1, {5}}}}, {2, {{2, {4, 5}}}}};
  const Assignment next{{0, 0}, {1, 3}, {2, 2}};
  EXPECT_THAT(handovers(copied, next, 5, 0), Optional(ElementsAre(Handover{0, 1, 3, 1})));
  EXPECT_EQ(handovers(copied, next, 4, 0), std::nullopt);
  const HeldByProcess there{{0, {{0, {5}}}}, {2, {{2, {5}}}}, {3, {{1, {5}}}}};
  EXPECT_THAT(handovers(there, next, 5, 0), Optional(IsEmpty()));
}

TEST(Handovers, AreOfARanksOwnSnapshotBeforeOneOfItsReplica) {
  const Assignment next{{0, 0}, {1, 4}, {2, 2}, {3, 3}};
  HeldByProcess holders{{0, {{0, {5}}}}, {2, {{2, {5}}}}, {3, {{3, {5}}}}};
  EXPECT_THAT(handovers(holders, next, 5, 2), Optional(ElementsAre(Handover{3, 3, 4, 1})));
  holders[3][1] = {5};
  EXPECT_THAT(handovers(holders, next, 5, 2), Optional(ElementsAre(Handover{3, 1, 4, 1})));
}

}  // namespace
}  // namespace penstock
