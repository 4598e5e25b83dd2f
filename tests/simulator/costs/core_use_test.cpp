// Which ranks share which cores, and what that costs.
#include "simulator/costs/core_use.hpp"

#include <gmock/gmock.h>

#include <limits>

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Profile machine(int cores, int threads) {
  Profile profile;
  profile.device.cores = cores;
  profile.device.threads = threads;
  return profile;
}

std::vector<std::vector<int>> shared(int cores, int ranks, int64_t replicas) {
  return core_use(machine(cores, 1), nullptr, ranks, replicas).of_rank;
}

TEST(CoreUse, RanksTakeTurnsWhereTheyOutnumberTheCores) {
  EXPECT_THAT(shared(2, 2, 1), IsEmpty());
  EXPECT_THAT(shared(2, 3, 1), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(0)));
  EXPECT_THAT(shared(2, 4, 1),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(0), ElementsAre(1)));
}

TEST(CoreUse, ReplicasAreProcessesBehindOneAnother) {
  EXPECT_THAT(shared(2, 2, 2), ElementsAre(ElementsAre(0, 0), ElementsAre(1, 1)));
  EXPECT_THAT(shared(2, 3, 2),
              ElementsAre(ElementsAre(0, 1), ElementsAre(1, 0), ElementsAre(0, 1)));
  EXPECT_THAT(shared(4, 2, 2), IsEmpty());
}

TEST(CoreUse, NothingIsSharedWhereTheCoresAreNotKnown) {
  EXPECT_THAT(shared(0, 64, 1), IsEmpty());
  EXPECT_EQ(core_use(machine(0, 4), nullptr, 64, 1).speed, 1);
  EXPECT_EQ(ranks_at_full_speed(machine(0, 4), nullptr, 1),
            std::numeric_limits<double>::infinity());
}

TEST(CoreUse, RanksWithFewerCoresThanTheyWereProfiledWithAreSlower) {
  Profile profile = machine(8, 4);
  profile.device.details["ranks"] = "2";
  EXPECT_EQ(core_use(profile, nullptr, 1, 1).speed, 1);
  EXPECT_EQ(core_use(profile, nullptr, 2, 1).speed, 1);
  EXPECT_EQ(core_use(profile, nullptr, 3, 1).speed, 0.5);
  EXPECT_EQ(core_use(profile, nullptr, 4, 2).speed, 0.25);
  EXPECT_EQ(core_use(profile, nullptr, 16, 1).speed, 0.25);
  EXPECT_EQ(ranks_at_full_speed(profile, nullptr, 1), 2);
  EXPECT_EQ(ranks_at_full_speed(profile, nullptr, 2), 1);
}

TEST(CoreUse, AProfileOfMoreRanksThanCoresWasMeasuredWithPartsOfThem) {
  Profile profile = machine(2, 1);
  profile.device.details["ranks"] = "4";
  EXPECT_EQ(core_use(profile, nullptr, 2, 1).speed, 2);
  EXPECT_EQ(core_use(profile, nullptr, 4, 1).speed, 2);  // alone; two to a core they share it
  EXPECT_EQ(ranks_at_full_speed(profile, nullptr, 1), 4);
}

TEST(CoreUse, ANodeOfAClusterSharesItsCoresAmongTheDevicesInUse) {
  Cluster cluster;
  cluster.nodes = {{.count = 2, .devices = 3, .cores = 2}, {.devices = 2}};
  cluster.ranks = 8;
  EXPECT_THAT(core_use(machine(2, 1), &cluster, 8, 1).of_rank,
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(0), ElementsAre(2),
                          ElementsAre(3), ElementsAre(2), IsEmpty(), IsEmpty()));
  cluster.devices = {2, 6, 0, 3};
  EXPECT_THAT(core_use(machine(2, 1), &cluster, 4, 1).of_rank,
              ElementsAre(ElementsAre(0), IsEmpty(), ElementsAre(1), ElementsAre(2)));
}

TEST(CoreUse, AClusterWithoutCoresHasADeviceForEachRank) {
  Cluster cluster;
  cluster.ranks = 4;
  EXPECT_THAT(core_use(machine(2, 1), &cluster, 4, 1).of_rank, IsEmpty());
}

}  // namespace
}  // namespace penstock
