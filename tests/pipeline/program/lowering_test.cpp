// Lowering, shown as CSV, and proved by `check` on random data flows.
#include "pipeline/program/lowering.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "pipeline/program/check.hpp"
#include "tests/pipeline/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Lowering, AChainSendsToItsNeighbours) {
  const Program lowered =
      lower(one_f_one_b.generate({.ranks = 2, .microbatches = 2}), chain_flows(2));
  EXPECT_EQ(to_csv(lowered),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
}

TEST(Lowering, AReceiveThatWaitsComesJustBeforeWhatNeedsIt) {
  const Program lowered =
      lower(one_f_one_b.generate({.ranks = 2, .microbatches = 3}), chain_flows(2));
  EXPECT_THAT(to_csv(lowered), HasSubstr("1RECV_F1,1B0,1SEND_B0,1F1"));
  EXPECT_EQ(to_csv(delay_receives(lowered)),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0F2,0SEND_F2,0RECV_B1,0B1,0RECV_B2,0B2\n"
            "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F2,1F2,1B2,1SEND_B2\n");
}

TEST(Lowering, DelayingReceivesKeepsTheOrderOfAChannel) {
  // Stages 1 and 2 are on rank 1; 2 needs its skip connection late, but it was sent before F1.
  const Program lowered = parse_csv(
      "0F0,0SEND_F0,0SEND_F0:2,0F1,0SEND_F1,0SEND_F1:2\n"
      "1RECV_F0,2RECV_F0:0,1RECV_F1,2RECV_F1:0,1F0,1F1,2F0,2F1\n",
      "test");
  EXPECT_THAT(to_csv(delay_receives(lowered)),
              HasSubstr("\n1RECV_F0,1F0,2RECV_F0:0,1RECV_F1,1F1,2F0,2RECV_F1:0,2F1\n"));
}

TEST(Lowering, ASkipConnectionNamesItsPeer) {
  // Stage 0 feeds 1 and 2: activations to ascending consumers, gradients to descending producers.
  const Program lowered =
      lower(gpipe.generate({.ranks = 3, .microbatches = 1}), {{0, 1}, {1, 2}, {0, 2}});
  EXPECT_EQ(to_csv(lowered),
            "0F0,0SEND_F0,0SEND_F0:2,0RECV_B0:2,0RECV_B0,0B0\n"
            "1RECV_F0,1F0,1SEND_F0,1RECV_B0,1B0,1SEND_B0\n"
            "2RECV_F0:0,2RECV_F0,2F0,2B0,2SEND_B0,2SEND_B0:0\n");
}

TEST(Lowering, NothingComesBackWithoutAGradient) {
  const Program lowered =
      lower(gpipe.generate({.ranks = 3, .microbatches = 1}), {{0, 1, false}, {1, 2, true}});
  EXPECT_EQ(to_csv(lowered),
            "0F0,0SEND_F0,0B0\n"
            "1RECV_F0,1F0,1SEND_F0,1RECV_B0,1B0\n"
            "2RECV_F0,2F0,2B0,2SEND_B0\n");
}

TEST(Lowering, ForwardOnlyHasNoBackwardTransfers) {
  const Program lowered =
      lower(forward_only(gpipe.generate({.ranks = 2, .microbatches = 2})), chain_flows(2));
  EXPECT_EQ(to_csv(lowered),
            "0F0,0SEND_F0,0F1,0SEND_F1\n"
            "1RECV_F0,1F0,1RECV_F1,1F1\n");
}

TEST(Lowering, StagesOfOneRankExchangeNothing) {
  const Program v = parse_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0", "");
  EXPECT_EQ(to_csv(lower(v, chain_flows(4))),
            "0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0\n"
            "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0\n");
}

TEST(Lowering, IWSplitSendsAfterI) {
  const Program split = parse_csv("0F0,0I0,0W0\n1F0,1I0,1W0", "");
  EXPECT_EQ(to_csv(lower(split, chain_flows(2))),
            "0F0,0SEND_F0,0RECV_B0,0I0,0W0\n"
            "1RECV_F0,1F0,1I0,1SEND_B0,1W0\n");
}

TEST(Lowering, AnOverlapSendsForBothItsParts) {
  const Program overlap = parse_csv("0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1", "");
  EXPECT_EQ(to_csv(lower(overlap, chain_flows(2))),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1RECV_F1,(1F1;1B0)OVERLAP_F_B,1SEND_B0,1B1,1SEND_B1\n");
}

TEST(Lowering, ReduceGradFollowsTheLastBackwardAndOptEndsTheRank) {
  const Program lowered = lower(one_f_one_b.generate({.ranks = 2, .microbatches = 2}),
                                chain_flows(2), {.reduce_stages = {0, 1}, .optimizer = true});
  EXPECT_EQ(to_csv(lowered),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0OPT\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1OPT\n");
}

TEST(Lowering, ReduceGradsOfARankComeInTheOrderInWhichItsStagesFinish) {
  const Program program = parse_csv("0F0,1F0,1I0,0I0,0W0,1W0", "");
  EXPECT_EQ(to_csv(lower(program, chain_flows(2), {.reduce_stages = {0, 1}})),
            "0F0,1F0,1I0,0I0,0W0,0REDUCE_GRAD,1W0,1REDUCE_GRAD\n");
  const Program usual = parse_csv("0F0,1F0,1B0,0B0", "");
  EXPECT_EQ(to_csv(lower(usual, chain_flows(2), {.reduce_stages = {0, 1}})),
            "0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD\n");
}

TEST(Lowering, UpdatesThatAProgramHasAreNotAddedAgain) {
  const Program program = parse_csv("0F0,0B0,0REDUCE_GRAD,0OPT", "");
  EXPECT_EQ(to_csv(add_updates(program, {.reduce_stages = {0}, .optimizer = true})),
            to_csv(program));
}

TEST(Lowering, ADeadlockNamesWhereEachRankWaits) {
  // Rank 0 wants the gradient of microbatch 1 first, rank 1 gives that of microbatch 0 only after
  // F1.
  const Program program = parse_csv("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1", "");
  EXPECT_THAT(input_error([&] { lower(program, chain_flows(2), {.place = "p.csv"}); }),
              AllOf(StartsWith("p.csv: the program deadlocks"), HasSubstr("rank 0 at 0B0"),
                    HasSubstr("rank 1 at 1F1"), HasSubstr("Order the actions")));
}

TEST(Lowering, OfManyWaitingRanksSomeAreListed) {
  std::string text = "0F0,0B0,0F1,0B1\n";
  for (int stage = 1; stage < 20; ++stage) {
    for (const char* action : {"F0,", "F1,", "B0,", "B1\n"}) text += std::to_string(stage) + action;
  }
  const Program program = parse_csv(text, "");
  EXPECT_THAT(
      input_error([&] { lower(program, chain_flows(20)); }),
      AllOf(HasSubstr("rank 7 at 7F1"), Not(HasSubstr("rank 8 at")), HasSubstr("and 12 more")));
}

TEST(Lowering, IsLoweredSeesTransfersAndUpdates) {
  EXPECT_FALSE(is_lowered(gpipe.generate({.ranks = 2, .microbatches = 2})));
  EXPECT_TRUE(is_lowered(lower(gpipe.generate({.ranks = 2, .microbatches = 2}), chain_flows(2))));
  EXPECT_TRUE(is_lowered(parse_csv("0F0,0B0,0OPT", "")));
}

/// Each stage uses the previous one and, by chance, any earlier one; some values carry no gradient.
std::vector<Flow> random_flows(int stages, std::mt19937& random) {
  std::vector<Flow> flows;
  for (int to = 1; to < stages; ++to) {
    for (int from = 0; from < to; ++from) {
      const bool present = from + 1 == to || random() % 3 == 0;
      if (present) flows.push_back({from, to, random() % 4 != 0});
    }
  }
  return flows;
}

/// A program in which every rank runs its stages' forwards ascending and backwards descending.
Program breadth_first(int stages, int microbatches, const std::vector<int>& rank_of_stage,
                      int ranks, bool split) {
  Program program;
  program.rank_of_stage = rank_of_stage;
  program.microbatches = microbatches;
  program.ranks.resize(static_cast<size_t>(ranks));
  const auto row = [&](int stage) -> std::vector<Action>& {
    return program.ranks[static_cast<size_t>(rank_of_stage[static_cast<size_t>(stage)])];
  };
  for (int stage = 0; stage < stages; ++stage) {
    for (int m = 0; m < microbatches; ++m) row(stage).push_back({stage, Kind::forward, m});
  }
  for (int stage = stages - 1; stage >= 0; --stage) {
    for (int m = microbatches - 1; m >= 0; --m) {
      row(stage).push_back({stage, split ? Kind::backward_input : Kind::backward, m});
      if (split) row(stage).push_back({stage, Kind::backward_weight, m});
    }
  }
  return program;
}

TEST(Lowering, RandomDataFlowsAreAcceptedByCheck) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 5);
    const int stages = ranks + static_cast<int>(random() % 6);
    std::vector<int> rank_of_stage(static_cast<size_t>(stages));
    for (int stage = 0; stage < stages; ++stage) {
      rank_of_stage[static_cast<size_t>(stage)] =
          stage < ranks ? stage : static_cast<int>(random() % 5) % ranks;
    }
    std::ranges::shuffle(rank_of_stage, random);
    const auto flows = random_flows(stages, random);
    const int microbatches = 1 + static_cast<int>(random() % 5);
    const Program program =
        breadth_first(stages, microbatches, rank_of_stage, ranks, random() % 2 == 0);
    const LoweringOptions options{.reduce_stages = {0, stages - 1}, .optimizer = true};
    check(lower(program, flows, options), flows, "training");
    check(delay_receives(lower(program, flows, options)), flows, "training, receives delayed");
    check(lower(forward_only(program), flows), flows, "inference");
  }
}

TEST(Lowering, ALargeProgramIsLoweredAndChecked) {
  const int ranks = 256;
  const int microbatches = 256;
  const auto flows = chain_flows(ranks);
  const Program lowered =
      lower(one_f_one_b.generate({.ranks = ranks, .microbatches = microbatches}), flows);
  size_t actions = 0;
  for (const auto& row : lowered.ranks) actions += row.size();
  // F and B everywhere; a SEND and a RECV forward and backward over each of the ranks - 1 borders.
  EXPECT_EQ(actions, static_cast<size_t>(microbatches * (2 * ranks + 4 * (ranks - 1))));
  check(lowered, flows, "large");
}

}  // namespace
}  // namespace penstock
