// Which devices the ranks of a layout may use, in which order.
#include "planner/layouts/arrangement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Cluster cluster_of(const std::vector<NodeKind>& nodes) {
  Cluster cluster;
  cluster.nodes = nodes;
  cluster.ranks = 0;
  for (const NodeKind& node : nodes) cluster.ranks += node.count * node.devices;
  return cluster;
}

TEST(Arrangements, OfEqualDevicesInOneNodeThereIsOne) {
  const Cluster cluster = cluster_of({{.devices = 8, .cards = 4}});
  EXPECT_THAT(arrangements(cluster, 4, 2), ElementsAre(IsEmpty()));
  EXPECT_THAT(arrangements(cluster, 8, 1), ElementsAre(IsEmpty()));
}

TEST(Arrangements, WithoutNodesThereIsOne) {
  EXPECT_THAT(arrangements(Cluster{.ranks = 8}, 4, 2), ElementsAre(IsEmpty()));
}

TEST(Arrangements, ReplicasLieApartOrTogetherOnSeveralNodes) {
  const Cluster cluster = cluster_of({{.count = 2, .devices = 2}});
  EXPECT_THAT(arrangements(cluster, 2, 2), ElementsAre(IsEmpty(), ElementsAre(0, 2, 1, 3)));
  EXPECT_THAT(arrangements(cluster, 4, 1), ElementsAre(IsEmpty()));
}

TEST(Arrangements, KindsFollowOneAnotherInEveryOrder) {
  const Cluster cluster = cluster_of({{.devices = 2, .speed = 0.5}, {.devices = 2}});
  EXPECT_THAT(arrangements(cluster, 4, 1), ElementsAre(IsEmpty(), ElementsAre(2, 3, 0, 1)));
  // Two of four ranks use one kind, or the other.
  EXPECT_THAT(arrangements(cluster, 2, 1), ElementsAre(IsEmpty(), ElementsAre(2, 3)));
  // Each rank's replicas have devices of one kind, or each replica has.
  EXPECT_THAT(arrangements(cluster, 2, 2),
              ElementsAre(IsEmpty(), ElementsAre(0, 2, 1, 3), ElementsAre(2, 3, 0, 1),
                          ElementsAre(2, 0, 3, 1)));
}

TEST(Arrangements, NodesOfOneKindAreTakenTogetherWhereverTheyAreListed) {
  const NodeKind fast{.devices = 1}, slow{.devices = 1, .speed = 0.5};
  const Cluster cluster = cluster_of({fast, slow, fast});
  EXPECT_THAT(arrangements(cluster, 3, 1),
              ElementsAre(IsEmpty(), ElementsAre(0, 2, 1), ElementsAre(1, 0, 2)));
}

TEST(Arrangements, OfManyKindsThoseAsListedAndBySpeedAreTried) {
  std::vector<NodeKind> nodes;
  for (const double speed : {3, 1, 5, 2, 4}) nodes.push_back({.devices = 1, .speed = speed});
  EXPECT_THAT(arrangements(cluster_of(nodes), 5, 1),
              ElementsAre(IsEmpty(), ElementsAre(2, 4, 0, 3, 1), ElementsAre(1, 3, 0, 4, 2)));
}

}  // namespace
}  // namespace penstock::test
