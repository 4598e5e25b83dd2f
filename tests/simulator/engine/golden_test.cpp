// Timelines worked out by hand: two ranks, two microbatches, F = 1 s, B = 2 s.
#include <gtest/gtest.h>

#include "tests/simulator/helpers.hpp"

namespace penstock {
namespace {

using testing::chain_costs;
using testing::lowered;
using testing::print;

/// Two stages, GPipe, two microbatches, one byte per message.
Simulation run(const Link& link) {
  return simulate(lowered(gpipe, 2, 2), chain_costs(2, 1, 2, 1), link);
}

/// One rank's rows of the printed timeline, of the forward half only.
std::string forward_half(const Simulation& simulation) {
  Timeline kept;
  for (const TimelineEvent& event : simulation.timeline) {
    const Kind kind = event.action.kind;
    if (kind == Kind::forward || kind == Kind::send_forward || kind == Kind::recv_forward) {
      kept.push_back(event);
    }
  }
  return print(kept);
}

//  s        0    1    2    3    4    5    6    7    8    9   10
//  rank 0   F0   F1   .........idle.......   B0.....  B1......
//  rank 1   ....   F0   F1   B0.......  B1.......
// A transfer takes half a second.
TEST(Golden, GPipeWithTransfersOfHalfASecond) {
  const Simulation result = run({.latency_s = 0.5});
  EXPECT_EQ(print(result.timeline),
            "0 0F0 0 1\n"
            "1 1RECV_F0 0 1.5\n"
            "0 0SEND_F0 1 1.5\n"
            "0 0F1 1 2\n"
            "1 1F0 1.5 2.5\n"
            "0 0SEND_F1 2 2.5\n"
            "0 0RECV_B0 2 6\n"
            "1 1RECV_F1 2.5 2.5\n"
            "1 1F1 2.5 3.5\n"
            "1 1B0 3.5 5.5\n"
            "1 1SEND_B0 5.5 6\n"
            "1 1B1 5.5 7.5\n"
            "0 0B0 6 8\n"
            "1 1SEND_B1 7.5 8\n"
            "0 0RECV_B1 8 8\n"
            "0 0B1 8 10\n");
  EXPECT_EQ(result.makespan_s, 10);
  EXPECT_EQ(result.bubble, 1 - 12 / 20.0);
  EXPECT_EQ(result.busy_s, (std::vector<double>{6, 6}));
  EXPECT_EQ(result.rank_start_s, (std::vector<double>{0, 1.5}));
  EXPECT_EQ(result.rank_end_s, (std::vector<double>{10, 7.5}));
  EXPECT_EQ(result.actions, 16);
}

// The second message, sent at 2, waits until the channel is free at 3; both arrive 0.25 s after.
TEST(Golden, AnEagerChannelCarriesOneMessageAtATimeAndPropagationOverlaps) {
  EXPECT_EQ(forward_half(run({.latency_s = 2, .propagation_s = 0.25})),
            "0 0F0 0 1\n"
            "1 1RECV_F0 0 3.25\n"
            "0 0SEND_F0 1 3\n"
            "0 0F1 1 2\n"
            "0 0SEND_F1 3 5\n"
            "1 1F0 3.25 4.25\n"
            "1 1RECV_F1 4.25 5.25\n"
            "1 1F1 5.25 6.25\n");
}

// One receive ahead: the second is posted when the first has come, at 3.25, so it moves then.
TEST(Golden, APostedMessageMovesOnceItsReceiveIsPosted) {
  EXPECT_EQ(
      forward_half(run(
          {.latency_s = 2, .propagation_s = 0.25, .mode = SendMode::posted, .receive_depth = 1})),
      "0 0F0 0 1\n"
      "1 1RECV_F0 0 3.25\n"
      "0 0SEND_F0 1 3\n"
      "0 0F1 1 2\n"
      "0 0SEND_F1 3.25 5.25\n"
      "1 1F0 3.25 4.25\n"
      "1 1RECV_F1 4.25 5.5\n"
      "1 1F1 5.5 6.5\n");
}

// None ahead: the second receive is posted when rank 1 gets there, at 4.25.
TEST(Golden, APostedMessageWithoutDepthMovesWhenTheReceiveIsReached) {
  EXPECT_EQ(
      forward_half(run(
          {.latency_s = 2, .propagation_s = 0.25, .mode = SendMode::posted, .receive_depth = 0})),
      "0 0F0 0 1\n"
      "1 1RECV_F0 0 3.25\n"
      "0 0SEND_F0 1 3\n"
      "0 0F1 1 2\n"
      "1 1F0 3.25 4.25\n"
      "0 0SEND_F1 4.25 6.25\n"
      "1 1RECV_F1 4.25 6.5\n"
      "1 1F1 6.5 7.5\n");
}

// Two ahead, the default, are enough for two microbatches: as eager.
TEST(Golden, TwoPostedReceivesHideWaitingForTwoMicrobatches) {
  const Link eager{.latency_s = 2, .propagation_s = 0.25};
  Link posted = eager;
  posted.mode = SendMode::posted;
  EXPECT_EQ(print(run(posted).timeline), print(run(eager).timeline));
}

// The sender waits until its bytes are out: F1 starts at 3 only.
TEST(Golden, ARendezvousHoldsTheSender) {
  EXPECT_EQ(
      forward_half(run({.latency_s = 2, .propagation_s = 0.25, .mode = SendMode::rendezvous})),
      "0 0F0 0 1\n"
      "1 1RECV_F0 0 3.25\n"
      "0 0SEND_F0 1 3\n"
      "0 0F1 3 4\n"
      "1 1F0 3.25 4.25\n"
      "0 0SEND_F1 4.25 6.25\n"
      "1 1RECV_F1 4.25 6.5\n"
      "1 1F1 6.5 7.5\n");
}

// A byte costs the sender 0.25 s of its next action and the receiver 0.5 s of its next.
TEST(Golden, ATransferCostsComputeOfTheActionAfterIt) {
  const Simulation result = run({.sender_s_per_byte = 0.25, .receiver_s_per_byte = 0.5});
  EXPECT_EQ(forward_half(result),
            "0 0F0 0 1\n"
            "1 1RECV_F0 0 1\n"
            "0 0SEND_F0 1 1\n"
            "0 0F1 1 2.25\n"
            "1 1F0 1 2.5\n"
            "0 0SEND_F1 2.25 2.25\n"
            "1 1RECV_F1 2.5 2.5\n"
            "1 1F1 2.5 4\n");
  // Rank 0: 6 of its own, 2 sends, 2 receives. Rank 1: the same, but nothing follows its last send.
  EXPECT_EQ(result.busy_s, (std::vector<double>{7.5, 7.25}));
}

// Both ranks are done with their last B at 7 and 9, and agree at 9 before they update.
TEST(Golden, TheOptimizerWaitsForAllRanksAndReduceGradTakesItsTime) {
  Program program = lower(gpipe.generate({.ranks = 2, .microbatches = 2}), chain_flows(2),
                          {.reduce_stages = {1}, .optimizer = true});
  Costs costs = chain_costs(2, 1, 2);
  costs.stages[0].optimizer_s = 0.5;
  costs.stages[1].optimizer_s = 0.25;
  costs.stages[1].reduce_s = 0.125;
  const Simulation result = simulate(program, costs, {});
  const std::string text = print(result.timeline);
  EXPECT_NE(text.find("1 1REDUCE_GRAD 7 7.125\n"), std::string::npos) << text;
  EXPECT_NE(text.find("0 0OPT 9 9.5\n1 1OPT 9 9.25\n"), std::string::npos) << text;
  EXPECT_EQ(result.makespan_s, 9.5);
  EXPECT_EQ(result.busy_s, (std::vector<double>{6.5, 6.25}));  // a reduction is not compute
}

// Rank 1 posts the receive of F1 before B0, as lowering lists it; B0 does not wait for it.
TEST(Golden, AReceiveHoldsOnlyWhatNeedsItsMessage) {
  const Program program = testing::rows(
      "0F0 0SEND_F0 0F1 0SEND_F1\n"
      "1RECV_F0 1F0 1RECV_F1 1B0 1F1");
  EXPECT_EQ(print(simulate(program, chain_costs(2, 4, 1), {}).timeline),
            "0 0F0 0 4\n"
            "1 1RECV_F0 0 4\n"
            "0 0SEND_F0 4 4\n"
            "0 0F1 4 8\n"
            "1 1F0 4 8\n"
            "0 0SEND_F1 8 8\n"
            "1 1B0 8 9\n"
            "1 1RECV_F1 9 9\n"
            "1 1F1 9 13\n");
}

TEST(Golden, MicrobatchZeroTakesLonger) {
  Costs costs = chain_costs(1, 1, 2);
  costs.stages[0].first_forward_s = 0.5;
  costs.stages[0].first_backward_s = 0.25;
  EXPECT_EQ(print(simulate(testing::rows("0F0 0F1 0B0 0B1"), costs, {}).timeline),
            "0 0F0 0 1.5\n0 0F1 1.5 2.5\n0 0B0 2.5 4.75\n0 0B1 4.75 6.75\n");
}

TEST(Golden, AnOverlapTakesAsLongAsItsParts) {
  const Program program = testing::rows("0F0 (0F1;0B0)OVERLAP_F_B 0B1");
  EXPECT_EQ(print(simulate(program, chain_costs(1, 1, 2), {}).timeline),
            "0 0F0 0 1\n0 (0F1;0B0)OVERLAP_F_B 1 4\n0 0B1 4 6\n");
}

TEST(Golden, ASkipConnectionHasItsOwnBytesOnASharedChannel) {
  // Stage 0 sends 1 byte to stage 1 and 2 bytes to stage 3, both on rank 1; stage 2 is on rank 0.
  const Program program = testing::rows(
      "0F0 0SEND_F0 0SEND_F0:3 2RECV_F0 2F0 2SEND_F0\n"
      "1RECV_F0 3RECV_F0:0 1F0 1SEND_F0 3RECV_F0 3F0");
  Costs costs = chain_costs(4, 1, 2, 1);
  costs.flows.push_back({0, 3, 2, 0});
  EXPECT_EQ(print(simulate(program, costs, Link{.bandwidth = 1}).timeline),
            "0 0F0 0 1\n"
            "1 1RECV_F0 0 2\n"
            "0 0SEND_F0 1 2\n"
            "0 2RECV_F0 1 4\n"
            "0 0SEND_F0:3 2 4\n"
            "1 1F0 2 3\n"
            "1 3RECV_F0:0 3 4\n"  // 3F0 waits for the skip connection first, then for stage 2
            "1 1SEND_F0 3 4\n"
            "0 2F0 4 5\n"
            "1 3RECV_F0 4 6\n"
            "0 2SEND_F0 5 6\n"
            "1 3F0 6 7\n");
}

}  // namespace
}  // namespace penstock
