// Clusters of tensor groups: what one part of each has of its node.
#include "simulator/network/grouped.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Cluster of(const NodeKind& node) {
  return {.ranks = node.count * node.devices, .nodes = {node}, .between = {.switch_bandwidth = 80}};
}

/// Bytes per second out of the node that a part has, and in how many cards.
std::pair<int, double> cards(int devices, int count, int parts) {
  const Cluster cluster =
      grouped(of({.count = 2, .devices = devices, .cards = count, .card_bandwidth = 24}), parts);
  return {cluster.nodes.front().cards, cluster.nodes.front().card_bandwidth};
}

TEST(GroupedCluster, APartHasItsShareOfTheCards) {
  EXPECT_EQ(cards(8, 8, 8), std::pair(1, 24.0));  // each device has its own
  EXPECT_EQ(cards(8, 1, 8), std::pair(1, 3.0));   // all parts share one
  EXPECT_EQ(cards(8, 4, 2), std::pair(4, 12.0));  // the parts of a group share its card
  EXPECT_EQ(cards(8, 2, 2), std::pair(2, 12.0));  // and two groups a card
  EXPECT_EQ(cards(8, 8, 2), std::pair(4, 24.0));
}

TEST(GroupedCluster, WhatANodeSharesIsDividedByTheParts) {
  const Cluster cluster = grouped(of({.count = 3,
                                      .devices = 8,
                                      .memory_bytes = 5,
                                      .cores = 16,
                                      .speed = 2,
                                      .bandwidth = 30,
                                      .bus_bandwidth = 40}),
                                  4);
  const NodeKind& node = cluster.nodes.front();
  EXPECT_EQ(cluster.ranks, 6);
  EXPECT_EQ(node.devices, 2);
  EXPECT_EQ(node.bus_bandwidth, 10);
  EXPECT_EQ(node.cores, 4);
  EXPECT_EQ(cluster.between.switch_bandwidth, 20);
  EXPECT_EQ(node.memory_bytes, 5);
  EXPECT_EQ(node.speed, 2);
  EXPECT_EQ(group_link(cluster).bandwidth, 10) << "the bus, which all parts of a group share";
}

TEST(GroupedCluster, TheSlowestNodesLinkJoinsParts) {
  Cluster cluster = of({.devices = 4, .latency_s = 1, .bandwidth = 30});
  cluster.nodes.push_back({.devices = 2, .latency_s = 2, .bandwidth = 20});
  cluster.nodes.push_back({.devices = 1, .latency_s = 9, .bandwidth = 1});
  const Cluster pairs = grouped(cluster, 2);
  EXPECT_EQ(pairs.ranks, 3) << "the last node has no two devices";
  EXPECT_EQ(group_link(pairs).latency_s, 2);
  EXPECT_EQ(group_link(pairs).bandwidth, 20);
}

TEST(GroupedCluster, GroupsAreNeighboursAndLeaveOutWhatIsLeftOver) {
  const Cluster cluster = of({.count = 2, .devices = 5});
  EXPECT_THAT(devices_of_groups(cluster, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3),
                                                         ElementsAre(5, 6), ElementsAre(7, 8)));
  EXPECT_THAT(devices_of_ranks(cluster, 2, {}, 6), ElementsAre(0, 1, 2, 3, 5, 6));
  EXPECT_THAT(devices_of_ranks(cluster, 2, {}, 4), IsEmpty()) << "the first four as listed";
  EXPECT_THAT(devices_of_ranks(cluster, 2, {3, 0}, 4), ElementsAre(7, 8, 0, 1));
}

TEST(GroupedCluster, EqualRanksAreGroupedToo) {
  const Cluster cluster = grouped({.ranks = 7, .memory_bytes = 3, .link = {.bandwidth = 9}}, 2);
  EXPECT_EQ(cluster.ranks, 3);
  EXPECT_EQ(cluster.memory(2), 3);
  EXPECT_EQ(group_link(cluster).bandwidth, 9);
}

TEST(GroupedCluster, WithoutRoomForAGroupItIsRefused) {
  try {
    grouped(of({.count = 4, .devices = 2}), 4);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no node has 4 devices for a tensor group"));
  }
}

}  // namespace
}  // namespace penstock
