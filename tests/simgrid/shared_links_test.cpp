// SimGrid's links that channels share, on cases small enough to work out by hand.
//
// Stages 0 and 1 are on ranks 0 and 1 of node 0 and send to stages 2 and 3 on node 1; compute takes
// no time, so the makespan is when the last of the messages has come. Sizes and rates are such that
// times are whole or halves.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/simgrid/child.hpp"
#include "tests/simgrid/replay.hpp"

namespace penstock::testing {
namespace {

constexpr double tolerance_s = 1e-9;  // far above what SimGrid's precision of 1e-12 s adds up to

/// Rank 0 sends `first` bytes to rank 2, rank 1 after `later_s` `second` bytes to rank 3.
double two_flows_s(const Platform& platform, int64_t first, int64_t second, double later_s = 0) {
  const Program program = parse_csv(
      "0F0,0SEND_F0:2\n"
      "1F0,1SEND_F0:3\n"
      "2RECV_F0:0,2F0\n"
      "3RECV_F0:1,3F0\n",
      "test");
  Costs costs;
  costs.stages.resize(4);
  costs.stages[1].forward_s = later_s;
  costs.flows = {{0, 2, first, 0}, {1, 3, second, 0}};
  return in_child([&] { return std::vector{simgrid_makespan_s(program, costs, platform)}; }).at(0);
}

/// Two ranks per node, wires without latency of `wire` bytes per second.
Platform two_nodes(double wire) {
  Platform platform = Platform::plain({0, wire});
  platform.ranks_per_node = 2;
  return platform;
}

TEST(SharedLinks, TwoFlowsShareACardEqually) {
  Platform platform = two_nodes(100);
  EXPECT_NEAR(two_flows_s(platform, 100, 100), 1, tolerance_s);
  platform.card.out = 10;
  EXPECT_NEAR(two_flows_s(platform, 100, 100), 20, tolerance_s);
  platform.card = {0, 5};
  EXPECT_NEAR(two_flows_s(platform, 100, 100), 40, tolerance_s);
  platform.switch_capacity = 4;
  EXPECT_NEAR(two_flows_s(platform, 100, 100), 50, tolerance_s);
}

TEST(SharedLinks, WhatABoundedFlowLeavesGoesToTheOther) {
  Platform platform = two_nodes(100);
  platform.card.out = 10;
  platform.special[{0, 2}] = {0, 2};
  EXPECT_NEAR(two_flows_s(platform, 1, 100), 10.1, tolerance_s);  // 8 for 0.5 s, then 10
  EXPECT_NEAR(two_flows_s(platform, 100, 1), 50, tolerance_s);
}

TEST(SharedLinks, SharesAreComputedAnewWhenAFlowBeginsOrEnds) {
  Platform platform = two_nodes(100);
  platform.card.out = 10;
  // 10 for 1 s, 5 until the second has its 20 bytes at 5 s, 10 for the other 10 bytes.
  EXPECT_NEAR(two_flows_s(platform, 40, 20, 1), 6, tolerance_s);
}

// The first message moves alone while the second is in its latency, which takes nothing; then both
// get the same although their latencies differ. SimGrid by itself would give them 20/3 and 10/3.
TEST(SharedLinks, LatencyUsesNoBandwidthAndGivesNoWeight) {
  Platform platform = two_nodes(100);
  platform.card.out = 10;
  platform.special[{0, 2}] = {1, 100};
  platform.special[{1, 3}] = {2, 100};
  // From 1 s on 10, from 2 s on 5 each: the first ends at 20 s, the second has 10 bytes left.
  EXPECT_NEAR(two_flows_s(platform, 100, 100), 21, tolerance_s);
}

TEST(SharedLinks, ACardServesItsNeighboursOnly) {
  Platform platform = two_nodes(100);
  platform.card = {10, 10};
  platform.cards = 2;
  EXPECT_NEAR(two_flows_s(platform, 100, 50), 10, tolerance_s);
}

TEST(SharedLinks, ABusIsForChannelsInsideANode) {
  Platform platform = two_nodes(100);
  platform.bus = {10, 10};
  EXPECT_NEAR(two_flows_s(platform, 100, 100), 1, tolerance_s);
  platform.ranks_per_node = 4;
  EXPECT_NEAR(two_flows_s(platform, 100, 100), 20, tolerance_s);
}

/// Node 0 and node 1, one rank each, send each other 100 bytes at once over cards of 10 bytes/s.
double both_ways_s(bool half_duplex) {
  const Program program = parse_csv(
      "0F0,0SEND_F0:2,3RECV_F0:1,3F0\n"
      "1F0,1SEND_F0:3,2RECV_F0:0,2F0\n",
      "test");
  Costs costs;
  costs.stages.resize(4);
  costs.flows = {{0, 2, 100, 0}, {1, 3, 100, 0}};
  Platform platform = Platform::plain({0, 100});
  platform.card = {10, 10, half_duplex};
  return in_child([&] { return std::vector{simgrid_makespan_s(program, costs, platform)}; }).at(0);
}

TEST(SharedLinks, AHalfDuplexCardIsSharedByBothWays) {
  EXPECT_NEAR(both_ways_s(false), 10, tolerance_s);
  EXPECT_NEAR(both_ways_s(true), 20, tolerance_s);
}

}  // namespace
}  // namespace penstock::testing
