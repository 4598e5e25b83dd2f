// The lanes of a program, and the rounds in which they are made.
#include "backend/communication/nccl/rounds.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "pipeline/program/lowering.hpp"
#include "pipeline/program/schedule.hpp"

namespace penstock {
namespace {

std::vector<std::string> names(const std::vector<LaneKey>& lanes) {
  std::vector<std::string> names;
  names.reserve(lanes.size());
  for (const LaneKey& lane : lanes) names.push_back(to_string(lane));
  return names;
}

TEST(Rounds, LanesAreWhereSomethingIsSentInEveryReplica) {
  const Program program = lower(one_f_one_b.generate({2, 1, 3}), std::vector<Flow>{{0, 1}});
  EXPECT_THAT(names(lanes_of(program, 1)),
              ::testing::ElementsAre("0-1-activations", "1-0-gradients"));
  EXPECT_THAT(names(lanes_of(program, 2)),
              ::testing::ElementsAre("0-1-activations", "1-0-gradients", "2-3-activations",
                                     "3-2-gradients"));
}

TEST(Rounds, LanesOfTensorGroupsAreBetweenEqualParts) {
  const Program program = lower(one_f_one_b.generate({2, 1, 3}), std::vector<Flow>{{0, 1}});
  EXPECT_THAT(names(lanes_of(program, 2, {}, 2)),
              ::testing::ElementsAre("0-2-activations", "1-3-activations", "2-0-gradients",
                                     "3-1-gradients", "4-6-activations", "5-7-activations",
                                     "6-4-gradients", "7-5-gradients"));
}

TEST(Rounds, ATransmittedParameterHasLanesToItsOwnerAndBackWhereItIsTrained) {
  const Program compute = one_f_one_b.generate({3, 1, 3});
  const Program training = lower(compute, chain_flows(3), {.optimizer = true});
  Slicing slicing;
  slicing.shared = {{0, {0, 2}, true}, {1, {1, 2}, false}};
  EXPECT_THAT(names(lanes_of(training, 2, slicing)),
              ::testing::ElementsAre("0-1-activations", "0-2-activations", "1-0-gradients",
                                     "1-2-activations", "2-0-gradients", "2-1-gradients",
                                     "3-4-activations", "3-5-activations", "4-3-gradients",
                                     "4-5-activations", "5-3-gradients", "5-4-gradients"));
  EXPECT_EQ(lanes_of(lower(compute, chain_flows(3)), 2, slicing).size(), 8U);
  EXPECT_THAT(names(lanes_of(training, 1, slicing, 2)),
              ::testing::IsSupersetOf(
                  {"0-4-activations", "1-5-activations", "4-0-gradients", "5-1-gradients"}));
}

std::vector<LaneKey> all_pairs(int ranks) {
  std::vector<LaneKey> lanes;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from == to) continue;
      lanes.push_back({from, to, false});
      if ((from + to) % 3 != 0) lanes.push_back({from, to, true});
    }
  }
  return lanes;
}

void expect_good_rounds(const std::vector<LaneKey>& lanes) {
  const auto rounds = rounds_of(lanes);
  std::map<int, size_t> degree;
  size_t busiest = 0;
  for (const LaneKey& lane : lanes) {
    busiest = std::max({busiest, ++degree[lane.from], ++degree[lane.to]});
  }
  std::vector<LaneKey> all;
  for (const auto& round : rounds) {
    std::set<int> ranks;
    for (const LaneKey& lane : round) {
      EXPECT_TRUE(ranks.insert(lane.from).second) << "rank " << lane.from << " is in it twice";
      EXPECT_TRUE(ranks.insert(lane.to).second) << "rank " << lane.to << " is in it twice";
      all.push_back(lane);
    }
  }
  EXPECT_THAT(all, ::testing::UnorderedElementsAreArray(lanes));
  EXPECT_LT(rounds.size(), 2 * busiest);
  EXPECT_GE(rounds.size(), busiest);
  std::vector<LaneKey> reversed(lanes.rbegin(), lanes.rend());
  EXPECT_EQ(rounds_of(reversed), rounds) << "the order of the lanes shows";
}

TEST(Rounds, HaveEveryLaneOnceAndNoRankTwice) {
  for (const int ranks : {2, 3, 7, 16}) expect_good_rounds(all_pairs(ranks));
  const std::vector<Flow> flows{{0, 1}, {0, 3}, {1, 2}, {1, 4}, {2, 3},
                                {3, 4}, {4, 5}, {5, 6}, {6, 7}};
  expect_good_rounds(lanes_of(lower(one_f_one_b.generate({8, 1, 4}), flows), 3));
}

TEST(Rounds, ManyLanesLeaveTheGpuToTheComputing) {
  EXPECT_EQ(ctas_of({{0, 1, false}, {1, 0, true}}), 4);
  EXPECT_EQ(ctas_of(all_pairs(3)), 2);  // 8 lanes at most at a rank
  EXPECT_EQ(ctas_of(all_pairs(16)), 1);
}

}  // namespace
}  // namespace penstock
