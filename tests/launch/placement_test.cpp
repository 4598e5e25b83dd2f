// Ranks get their cores and devices: machines of several shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/placement.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Nodes of so many physical cores each; with two threads the second ones are numbered after all
/// first ones, as Linux does.
std::vector<LogicalCore> machine(const std::vector<int>& cores_of_node, int threads = 1) {
  std::vector<LogicalCore> cores;
  for (int thread = 0; thread < threads; ++thread) {
    int core = 0;
    for (size_t node = 0; node < cores_of_node.size(); ++node) {
      for (int i = 0; i < cores_of_node[node]; ++i, ++core) {
        cores.push_back({static_cast<int>(cores.size()), core, static_cast<int>(node)});
      }
    }
  }
  return cores;
}

std::vector<std::vector<int>> shares(const std::vector<LogicalCore>& cores,
                                     const std::vector<CoreClaim>& claims) {
  std::vector<std::vector<int>> result;
  for (size_t rank = 0; rank < claims.size(); ++rank) {
    result.push_back(cores_of_rank(cores, claims, static_cast<int>(rank)));
  }
  return result;
}

/// All ranks may use everything.
std::vector<std::vector<int>> shares(const std::vector<LogicalCore>& cores, int ranks) {
  CoreClaim all;
  for (const LogicalCore& core : cores) all.allowed.insert(core.id);
  return shares(cores, std::vector<CoreClaim>(static_cast<size_t>(ranks), all));
}

TEST(Placement, OneNodeIsSharedEqually) {
  EXPECT_THAT(shares(machine({5}), 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(Placement, RanksThatOutnumberCoresTakeTurns) {
  EXPECT_THAT(shares(machine({2}), 3), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(0)));
}

TEST(Placement, ThreadsOfOneCoreStayTogether) {
  EXPECT_THAT(shares(machine({4}, 2), 2),
              ElementsAre(ElementsAre(0, 4, 1, 5), ElementsAre(2, 6, 3, 7)));
}

TEST(Placement, NoRankIsOnTwoNodesWhileOthersFit) {
  // Equal shares of 2 in a row would be 0 1, 2 3, 4 5.
  EXPECT_THAT(shares(machine({3, 3}), 3),
              ElementsAre(ElementsAre(0, 1), ElementsAre(3, 4), ElementsAre(2, 5)));
}

TEST(Placement, AnUnequalMachineGivesItsLargerNodeMoreRanks) {
  EXPECT_THAT(shares(machine({6, 2}), 4), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3),
                                                      ElementsAre(4, 5), ElementsAre(6, 7)));
}

TEST(Placement, ARankLargerThanANodeGetsWholeNodes) {
  EXPECT_THAT(shares(machine({2, 2, 2, 2}), 2),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
}

TEST(Placement, EveryShapeGivesEqualSharesOfCoresOfOnesOwn) {
  for (const auto& nodes : {std::vector{1}, {7}, {3, 5}, {4, 4, 4}, {1, 1, 9, 2}}) {
    const auto cores = machine(nodes, 2);
    for (int ranks = 1; ranks <= static_cast<int>(cores.size()); ++ranks) {
      std::set<int> taken;
      for (const auto& share : shares(cores, ranks)) {
        EXPECT_EQ(share.size(), cores.size() / static_cast<size_t>(ranks));
        for (const int core : share) EXPECT_TRUE(taken.insert(core).second) << core;
      }
    }
  }
}

TEST(Placement, CoresThatALauncherGaveARankAreAllItsOwn) {
  const CoreClaim first{{0, 1}}, second{{2, 3}};
  EXPECT_THAT(shares(machine({4}), {first, second}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  // mpirun binds several ranks to one socket
  EXPECT_THAT(shares(machine({4, 4}), {{{0, 1, 2, 3}}, {{0, 1, 2, 3}}, {{4, 5, 6, 7}}}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5, 6, 7)));
}

TEST(Placement, NothingKnownIsNothingPinned) {
  EXPECT_THAT(shares({}, {{{0, 1}}}), ElementsAre(IsEmpty()));
}

}  // namespace
}  // namespace penstock
