// Links that transfers share: rates worked out by hand, and the properties of a fair share.
#include "simulator/network/shared_work.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <random>

#include "simulator/network/network.hpp"
#include "tests/simulator/helpers.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using testing::rows;

std::vector<double> rates(const std::vector<std::pair<double, std::vector<int>>>& flows,
                          const std::vector<double>& capacity) {
  std::vector<FairFlow> fair;
  std::vector<FairFlow*> all;
  fair.reserve(flows.size());
  for (const auto& [bound, passes] : flows)
    all.push_back(&fair.emplace_back(FairFlow{bound, &passes}));
  FairShare(capacity).fill(all);
  std::vector<double> found;
  for (const FairFlow& flow : fair) found.push_back(flow.rate);
  return found;
}

TEST(FairShare, IsEqualWhereNothingElseBinds) {
  EXPECT_THAT(rates({{0, {0}}, {0, {0}}, {0, {0}}, {0, {0}}}, {8}), ElementsAre(2, 2, 2, 2));
}

TEST(FairShare, WhatABoundedFlowLeavesGoesToTheOthers) {
  EXPECT_THAT(rates({{1, {0}}, {0, {0}}, {0, {0}}}, {9}), ElementsAre(1, 4, 4));
}

// The textbook's line of links: flow 0 passes both, flow 1 the narrow one, flow 2 the wide one.
TEST(FairShare, TheNarrowestLinkDecidesFirst) {
  EXPECT_THAT(rates({{0, {0, 1}}, {0, {0}}, {0, {1}}}, {2, 10}), ElementsAre(1, 1, 9));
}

TEST(FairShare, FillsALinkOrTheBoundOfEveryFlow) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::vector<double> capacity;
    for (size_t i = 0; i < 1 + random() % 4; ++i) capacity.push_back(1 + random() % 9);
    std::vector<std::pair<double, std::vector<int>>> flows;
    for (size_t i = 0; i < 1 + random() % 6; ++i) {
      std::vector<int> passes;
      for (size_t c = 0; c < capacity.size(); ++c) {
        if (random() % 2) passes.push_back(static_cast<int>(c));
      }
      flows.emplace_back(1 + random() % 5, passes);
    }
    const std::vector<double> found = rates(flows, capacity);
    std::vector<double> used(capacity.size(), 0);
    for (size_t i = 0; i < flows.size(); ++i) {
      for (const int c : flows[i].second) used[static_cast<size_t>(c)] += found[i];
    }
    constexpr double rounding = 1e-12;  // of sums of up to six rates below 10
    for (size_t c = 0; c < capacity.size(); ++c) EXPECT_LE(used[c], capacity[c] + rounding);
    for (size_t i = 0; i < flows.size(); ++i) {
      // At its bound, or on a full link where nobody is faster.
      bool stopped = found[i] >= flows[i].first - rounding;
      for (const int c : flows[i].second) {
        double fastest = 0;
        for (size_t j = 0; j < flows.size(); ++j) {
          const auto& passes = flows[j].second;
          if (std::count(passes.begin(), passes.end(), c)) fastest = std::max(fastest, found[j]);
        }
        stopped |= used[static_cast<size_t>(c)] >= capacity[static_cast<size_t>(c)] - rounding &&
                   found[i] >= fastest - rounding;
      }
      EXPECT_TRUE(stopped) << "round " << round << ", flow " << i;
    }
  }
}

/// Two nodes of two devices with one card of 8 bytes per second and direction.
Cluster two_nodes(bool full_duplex = true) {
  Cluster cluster;
  cluster.nodes = {
      {.count = 2, .devices = 2, .card_bandwidth = 8, .card_full_duplex = full_duplex}};
  cluster.link.mode = SendMode::eager;
  cluster.ranks = 4;
  return cluster;
}

/// Every rank a stage; stage 0 and 1 send 8 bytes to 2 and 3, at the times that their F take.
double last_arrival_s(const Cluster& cluster, double first_s, double second_s) {
  const Program program = rows("0F0 0SEND_F0:2\n1F0 1SEND_F0:3\n2RECV_F0:0 2F0\n3RECV_F0:1 3F0");
  Costs costs;
  for (const double time_s : {first_s, second_s, 0.0, 0.0}) {
    costs.stages.push_back({.forward_s = time_s});
  }
  costs.flows = {{0, 2, 8, 0}, {1, 3, 8, 0}};
  return simulate(program, costs, Network(cluster)).makespan_s;
}

TEST(SharedLinks, TwoTransfersThroughOneCardTakeTwiceAsLong) {
  EXPECT_EQ(last_arrival_s(two_nodes(), 1, 1), 3);
}

// From 1 alone: 4 bytes until 1.5, then both at half speed: the first has 4 left, until 2.5; the
// second then has 4 left at full speed, until 3.
TEST(SharedLinks, RatesChangeWhenAnotherTransferBeginsAndEnds) {
  EXPECT_EQ(last_arrival_s(two_nodes(), 1, 1.5), 3);
  EXPECT_EQ(last_arrival_s(two_nodes(), 1, 1.75), 3);
}

TEST(SharedLinks, TransfersThatDoNotMeetDoNotSlowEachOther) {
  EXPECT_EQ(last_arrival_s(two_nodes(), 1, 2), 3);
  EXPECT_EQ(last_arrival_s(two_nodes(), 1, 4), 5);
}

TEST(SharedLinks, ACardForEachDeviceIsShared) {
  Cluster cluster = two_nodes();
  cluster.nodes[0].cards = 2;
  EXPECT_EQ(last_arrival_s(cluster, 1, 1), 2);
  cluster.between.switch_bandwidth = 8;
  EXPECT_EQ(last_arrival_s(cluster, 1, 1), 3) << "but the switch is";
}

TEST(SharedLinks, HalfDuplexCardsShareBothDirections) {
  // Stage 0 sends to 2 while 1, beside it, receives from 3 (backwards, so that stages ascend).
  const Program program = rows(
      "0F0 0SEND_F0:2\n1F0 1SEND_F0:3 1RECV_B0:3 1B0\n2RECV_F0:0 2F0\n"
      "3RECV_F0:1 3F0 3B0 3SEND_B0:1");
  Costs costs;
  costs.stages = {{.forward_s = 2}, {.forward_s = 1, .backward_s = 0}, {}, {}};
  costs.flows = {{0, 2, 8, 0}, {1, 3, 0, 8}};
  // The gradient of 3 moves from 1 on: alone until 2.
  costs.stages[3].backward_s = 0.5;
  EXPECT_EQ(simulate(program, costs, Network(two_nodes(true))).makespan_s, 3);
  // From 1.5: 4 bytes alone until 2, then both at half speed: it ends at 3, the other has 4 left.
  EXPECT_EQ(simulate(program, costs, Network(two_nodes(false))).makespan_s, 3.5);
}

TEST(SharedLinks, LatencyPassesBeforeBytesShare) {
  Cluster cluster = two_nodes();
  cluster.between.latency_s = 0.5;
  EXPECT_EQ(last_arrival_s(cluster, 1, 1), 3.5);
  EXPECT_EQ(last_arrival_s(cluster, 1, 2), 3.5) << "they do not meet: 1.5 to 2.5, 2.5 to 3.5";
}

/// What SharedWork finds, by sharing everything anew among all at each begin and end.
std::map<int32_t, double> ends_by_sharing_anew(std::vector<WorkItem> items,
                                               const std::vector<double>& capacity) {
  struct Under {
    WorkItem item;
    FairFlow flow;
  };
  std::ranges::sort(items, {}, [](const WorkItem& item) { return item.start_s + item.latency_s; });
  std::list<Under> moving;
  std::map<int32_t, double> ends;
  double now_s = 0;
  for (size_t begun = 0; begun < items.size() || !moving.empty();) {
    std::vector<FairFlow*> flows;
    for (Under& under : moving) flows.push_back(&under.flow);
    FairShare(capacity).fill(flows);
    double next_s = std::numeric_limits<double>::infinity();
    if (begun < items.size()) next_s = items[begun].start_s + items[begun].latency_s;
    auto first = moving.end();
    for (auto under = moving.begin(); under != moving.end(); ++under) {
      const double end_s = now_s + under->item.amount / under->flow.rate;
      if (end_s >= next_s) continue;
      next_s = end_s;
      first = under;
    }
    for (Under& under : moving) under.item.amount -= under.flow.rate * (next_s - now_s);
    now_s = next_s;
    if (first == moving.end()) {
      const WorkItem& item = items[begun++];
      moving.push_back({item, {item.bound, item.passes}});
    } else {
      ends[first->item.id] = now_s;
      moving.erase(first);
    }
  }
  return ends;
}

TEST(SharedWork, EndsWhenItWouldIfAllWereSharedAnewEachTime) {
  std::mt19937 random(5);
  const auto draw = [&](int below) { return static_cast<int>(random() % below); };
  for (int round = 0; round < 300; ++round) {
    std::vector<double> capacity;
    for (int i = 0; i < 1 + draw(6); ++i) capacity.push_back(1 + draw(9));
    std::deque<std::vector<int>> passes;  // stay in place
    std::vector<WorkItem> items;
    for (int id = 0; id < 40; ++id) {
      std::vector<int>& own = passes.emplace_back();
      for (int c = 0; c < static_cast<int>(capacity.size()); ++c)
        if (draw(3) == 0) own.push_back(c);
      const bool bounded = own.empty() || draw(2) == 0;
      items.push_back({id, draw(1000) / 7.0, draw(3) / 11.0, 1 + draw(1000) / 13.0,
                       bounded ? 1.0 + draw(5) : 0, &own});
    }
    SharedWork work(capacity);
    for (const WorkItem& item : items) work.add(item);
    std::map<int32_t, double> ends;
    double last_s = 0;
    while (const auto done = work.next()) {
      EXPECT_GE(done->end_s, last_s);
      ends[done->id] = last_s = done->end_s;
    }
    const std::map<int32_t, double> expected = ends_by_sharing_anew(items, capacity);
    ASSERT_EQ(ends.size(), expected.size());
    // Some hundred sums of times below 1e4, each rounded to 1e-16 of it.
    for (const auto& [id, end_s] : expected) EXPECT_NEAR(ends[id], end_s, 1e-9);
  }
}

TEST(Moments, ComeInOrderOfTimeWhereverTheyWereMoved) {
  std::mt19937 random(17);
  Moments moments;
  std::map<int32_t, std::pair<double, int64_t>> expected;  // by work
  for (int64_t number = 0; number < 20'000; ++number) {
    if (random() % 3 > 0) {
      const auto work = static_cast<int32_t>(random() % 50);
      const double time_s = static_cast<double>(random() % 100);  // many are equal
      moments.put({time_s, number, work});
      expected[work] = {time_s, number};
    } else if (!expected.empty()) {
      const auto first =
          std::ranges::min_element(expected, {}, [](const auto& moment) { return moment.second; });
      ASSERT_EQ(moments.top().work, first->first);
      moments.pop();
      expected.erase(first);
    }
    ASSERT_EQ(moments.empty(), expected.empty());
  }
}

TEST(Network, WithinANodeTheNodesLinkBetweenNodesTheCards) {
  Cluster cluster = two_nodes();
  cluster.nodes[0].latency_s = 0.25;
  cluster.nodes[0].bandwidth = 100;
  cluster.between.latency_s = 1;
  const Network network(cluster);
  EXPECT_EQ(network.route(0, 1).bandwidth, 100);
  EXPECT_EQ(network.route(0, 1).latency_s, 0.25);
  EXPECT_TRUE(network.route(0, 1).shared.empty());
  EXPECT_EQ(network.route(0, 2).bandwidth, 8);
  EXPECT_EQ(network.route(0, 2).latency_s, 1);
  EXPECT_EQ(network.route(0, 2).shared.size(), 2U);
  EXPECT_EQ(network.route(0, 2).shared, network.route(1, 3).shared);
  EXPECT_EQ(network.link().bandwidth, 100) << "the best of all, for bounds";
  EXPECT_EQ(network.link().latency_s, 0.25);
}

}  // namespace
}  // namespace penstock
