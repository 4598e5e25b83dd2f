// Downsets and the graphs they are made of, against trying every set of nodes.
#include "planner/model/downsets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>

namespace penstock::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Edges go to larger numbers through a random renaming, so that the order of numbers says nothing.
Dag random_dag(uint64_t seed, int nodes, int percent) {
  std::mt19937_64 random(seed);
  std::vector<int> name(nodes);
  for (int i = 0; i < nodes; ++i) name[i] = i;
  for (int i = nodes - 1; i > 0; --i) std::swap(name[i], name[random() % (i + 1)]);
  Dag dag{nodes, {}};
  for (int from = 0; from < nodes; ++from)
    for (int to = from + 1; to < nodes; ++to)
      if (static_cast<int>(random() % 100) < percent) dag.edges.emplace_back(name[from], name[to]);
  return dag;
}

bool is_downset(const Dag& dag, uint32_t set) {
  return std::ranges::all_of(dag.edges, [&](const auto& edge) {
    return !(set >> edge.second & 1) || set >> edge.first & 1;
  });
}

uint32_t as_bits(const std::vector<int>& nodes) {
  uint32_t bits = 0;
  for (const int node : nodes) bits |= uint32_t{1} << node;
  return bits;
}

TEST(Downsets, AreAllSetsThatContainWhatComesBefore) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Dag dag = random_dag(seed, 1 + static_cast<int>(seed % 12), static_cast<int>(seed % 70));
    const Downsets downsets(dag, SIZE_MAX);
    ASSERT_TRUE(downsets.complete());
    std::set<uint32_t> expected, found;
    for (uint32_t set = 0; set < uint32_t{1} << dag.nodes; ++set)
      if (is_downset(dag, set)) expected.insert(set);
    size_t smaller = 0;
    for (int i = 0; i < downsets.count(); ++i) {
      const std::vector<int> nodes = downsets.nodes(i);
      EXPECT_GE(nodes.size(), smaller);  // from the smallest to the largest
      smaller = nodes.size();
      EXPECT_TRUE(found.insert(as_bits(nodes)).second);
    }
    EXPECT_EQ(found, expected);
    EXPECT_THAT(downsets.nodes(downsets.empty()), IsEmpty());
    EXPECT_EQ(static_cast<int>(downsets.nodes(downsets.full()).size()), dag.nodes);
  }
}

TEST(Downsets, OfMoreThan64NodesAreTold) {
  // 65 and 66 may come in either order, the rest is a chain.
  Dag dag{70, {}};
  for (int i = 0; i + 1 < 70; ++i)
    if (i != 65) dag.edges.emplace_back(i, i + 1);
  dag.edges.emplace_back(64, 66);
  dag.edges.emplace_back(65, 67);
  const Downsets downsets(dag, SIZE_MAX);
  EXPECT_EQ(downsets.count(), 72);
}

TEST(Downsets, WalkingUpVisitsEveryLargerOneOnceAndKeepsTheDifference) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Dag dag = random_dag(seed, 2 + static_cast<int>(seed % 7), 25);
    Downsets downsets(dag, SIZE_MAX);
    for (int from = 0; from < downsets.count(); ++from) {
      const uint32_t base = as_bits(downsets.nodes(from));
      uint32_t now = base;
      std::set<int> visited;
      downsets.walk_up(
          from,
          [&](const Downsets::Step& step) {
            now |= uint32_t{1} << step.node;
            EXPECT_EQ(now, as_bits(downsets.nodes(step.downset)));
            EXPECT_TRUE(visited.insert(step.downset).second);
            return true;
          },
          [&](const Downsets::Step& step) { now &= ~(uint32_t{1} << step.node); });
      EXPECT_EQ(now, base);
      for (int to = 0; to < downsets.count(); ++to) {
        const uint32_t larger = as_bits(downsets.nodes(to));
        EXPECT_EQ(visited.contains(to), larger != base && (larger & base) == base);
      }
    }
  }
}

TEST(Downsets, GoesOnOnlyWhereItIsTold) {
  Downsets downsets({3, {{0, 1}, {1, 2}}}, SIZE_MAX);
  for (int time = 0; time < 2; ++time) {  // a walk leaves nothing behind
    std::vector<int> visited;
    downsets.walk_up(
        0,
        [&](const Downsets::Step& step) {
          visited.push_back(step.downset);
          return step.node != 1;
        },
        [](const Downsets::Step&) {});
    EXPECT_THAT(visited, ElementsAre(1, 2));
  }
}

TEST(Downsets, FollowOneOrderWhereTheLimitStrikes) {
  const Dag antichain{20, {}};  // 2^20 downsets
  const Downsets limited(antichain, 1000);
  EXPECT_FALSE(limited.complete());
  ASSERT_EQ(limited.count(), 21);
  for (int i = 0; i <= 20; ++i) EXPECT_EQ(static_cast<int>(limited.nodes(i).size()), i);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Dag dag = random_dag(seed, 12, 20);
    const int all = Downsets(dag, SIZE_MAX).count();
    EXPECT_TRUE(Downsets(dag, all).complete());
    const Downsets fewer(dag, all - 1);
    EXPECT_FALSE(fewer.complete());
    for (int i = 0; i < fewer.count(); ++i)
      EXPECT_TRUE(is_downset(dag, as_bits(fewer.nodes(i)))) << seed;
    EXPECT_EQ(fewer.full(), dag.nodes);
  }
}

TEST(Dag, OrdersNodesBehindThoseBeforeThem) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Dag dag = random_dag(seed, 10, 30);
    const std::vector<int> order = topological_order(dag);
    std::vector<int> place(dag.nodes, -1);
    for (int i = 0; i < static_cast<int>(order.size()); ++i) place[order[i]] = i;
    EXPECT_EQ(std::ranges::count(place, -1), 0);
    for (const auto& [from, to] : dag.edges) EXPECT_LT(place[from], place[to]);
  }
}

TEST(Dag, FindsTheNodesOfACycle) {
  EXPECT_THAT(nodes_in_cycle({4, {{0, 1}, {1, 2}, {2, 3}}}), IsEmpty());
  EXPECT_THAT(nodes_in_cycle({4, {{0, 1}, {1, 2}, {2, 1}, {2, 3}}}), ElementsAre(1, 2));
  EXPECT_THAT(nodes_in_cycle({5, {{4, 3}, {3, 4}, {1, 2}, {2, 1}}}), ElementsAre(1, 2));
  EXPECT_THAT(nodes_in_cycle({2, {{1, 1}}}), ElementsAre(1));
  for (uint64_t seed = 0; seed < 100; ++seed)
    EXPECT_THAT(nodes_in_cycle(random_dag(seed, 9, 40)), IsEmpty());
}

TEST(Dag, ComponentsAreNodesThatReachEachOther) {
  EXPECT_THAT(components({4, {{0, 2}, {2, 0}, {1, 3}}}), ElementsAre(0, 1, 0, 2));
}

TEST(Dag, ChainsHaveNoOtherWayInOrOut) {
  //  0 -> 1 -> 2 -> 5 -> 6
  //        `-> 3 -> 4 -^
  const Dag dag{7, {{0, 1}, {1, 2}, {1, 3}, {3, 4}, {2, 5}, {4, 5}, {5, 6}}};
  EXPECT_THAT(chains(dag), ElementsAre(0, 0, 1, 2, 2, 3, 3));
  const Dag merged = quotient(dag, chains(dag));
  EXPECT_EQ(merged.nodes, 4);
  EXPECT_THAT(merged.edges,
              ElementsAre(std::pair(0, 1), std::pair(0, 2), std::pair(1, 3), std::pair(2, 3)));
}

TEST(Dag, ChainsOfRandomGraphsGiveDownsetsOfTheGraph) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Dag dag = random_dag(seed, 10, 18);
    const std::vector<int> chain = chains(dag);
    const Dag merged = quotient(dag, chain);
    EXPECT_THAT(nodes_in_cycle(merged), IsEmpty());
    const Downsets downsets(merged, SIZE_MAX);
    for (int i = 0; i < downsets.count(); ++i) {
      uint32_t set = 0;
      for (int node = 0; node < dag.nodes; ++node)
        if (downsets.contains(i, chain[node])) set |= uint32_t{1} << node;
      EXPECT_TRUE(is_downset(dag, set));
    }
  }
}

}  // namespace
}  // namespace penstock::test
