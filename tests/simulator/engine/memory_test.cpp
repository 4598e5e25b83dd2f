// Memory along a rank's program, by hand.
#include <gtest/gtest.h>

#include "simulator/engine/memory.hpp"
#include "tests/simulator/helpers.hpp"

namespace penstock {
namespace {

std::string print(const std::vector<MemorySample>& samples) {
  std::string text;
  for (const MemorySample& sample : samples) {
    text += std::to_string(sample.rank) + "@" + std::to_string(static_cast<int>(sample.time_s)) +
            ":" + std::to_string(sample.bytes) + " ";
  }
  return text;
}

Costs one_stage() {
  Costs costs;
  costs.stages.push_back({.forward_s = 1,
                          .backward_s = 2,
                          .backward_input_s = 1,
                          .backward_weight_s = 1,
                          .saved_bytes = 10,
                          .saved_weight_bytes = 14,
                          .transient_forward_bytes = 5,
                          .transient_backward_bytes = 7,
                          .transient_input_bytes = 7,
                          .transient_weight_bytes = 7,
                          .fixed_bytes = 1100});
  return costs;
}

TEST(Memory, BackwardFreesWhatForwardSaved) {
  const Simulation result = simulate(testing::rows("0F0 0F1 0B0 0B1"), one_stage(), {});
  EXPECT_EQ(print(result.memory),
            "0@0:1100 0@0:1115 0@1:1110 0@1:1125 0@2:1120 0@2:1127 0@4:1110 0@4:1117 0@6:1100 ");
  EXPECT_EQ(result.peak_memory_bytes, std::vector<int64_t>{1127});
  EXPECT_EQ(result.peak_activations, std::vector<int>{2});
}

TEST(Memory, BackwardForTheInputExchangesWhatIsSavedForWhatTheWeightNeeds) {
  const Simulation result = simulate(testing::rows("0F0 0I0 0F1 0I1 0W0 0W1"), one_stage(), {});
  EXPECT_EQ(print(result.memory),
            "0@0:1100 0@0:1115 0@1:1110 0@1:1117 0@2:1114 "  // F0, I0: 10 saved, then 14
            "0@2:1129 0@3:1124 0@3:1131 0@4:1128 "           // F1, I1: 14 more
            "0@4:1135 0@5:1114 0@5:1121 0@6:1100 ");         // W0, W1
  EXPECT_EQ(result.peak_memory_bytes, std::vector<int64_t>{1135});
  EXPECT_EQ(result.peak_activations, std::vector<int>{2});  // held until the end of W
}

TEST(Memory, TellsWhatIsHeldAtItsPeak) {
  const auto held = [](const char* row, const Costs& costs) {
    const Program program = testing::rows(row);
    return held_at_peak(program, 0, memory_of_rank(program, 0, costs));
  };
  EXPECT_EQ(held("0F0 0F1 0B0 0B1", one_stage()), std::vector<int>{2});
  EXPECT_EQ(held("0F0 0I0 0F1 0I1 0W0 0W1", one_stage()), std::vector<int>{0});  // as W0 begins
  Costs two = one_stage();
  two.stages.push_back(two.stages.front());
  two.stages[1].transient_backward_bytes = 40;
  EXPECT_EQ(held("0F0 0F1 1F0 1B0 0F2 1F1 1B1 0B0 0B1 0B2", two), (std::vector<int>{3, 1}));
  two.stages[1].saved_bytes = 1;
  two.stages[0].saved_bytes = 2;
  two.stages[0].transient_forward_bytes = 0;
  EXPECT_EQ(held("0F0 0F1 1F0 1B0 0B0 0B1", two), (std::vector<int>{2, 1}));
  two.stages[1].transient_backward_bytes = 0;
  two.stages[0].transient_backward_bytes = 90;
  EXPECT_EQ(held("0F0 0F1 1F0 1B0 0B0 0B1", two), (std::vector<int>{2, 0}));
}

TEST(Memory, InferenceHoldsNothingBetweenForwards) {
  const Simulation result = simulate(testing::rows("0F0 0F1 0F2"), one_stage(), {});
  EXPECT_EQ(result.peak_memory_bytes, std::vector<int64_t>{1115});
  EXPECT_EQ(result.peak_activations, std::vector<int>{1});
}

TEST(Memory, AnotherRanksGradientIsThereWhileGradientsAreReduced) {
  Costs costs = one_stage();
  costs.stages[0].reduce_s = 2;
  costs.stages[0].transient_reduce_bytes = 30;
  const Simulation result = simulate(testing::rows("0F0 0B0 0REDUCE_GRAD 0OPT"), costs, {});
  EXPECT_EQ(print(result.memory),
            "0@0:1100 0@0:1115 0@1:1110 0@1:1117 0@3:1100 0@3:1130 0@5:1100 ");
  EXPECT_EQ(result.peak_memory[0].transient_bytes, 30);
}

TEST(Memory, AnOverlapHoldsItsForwardBeforeItsBackwardFrees) {
  const Simulation result =
      simulate(testing::rows("0F0 (0F1;0B0)OVERLAP_F_B 0B1"), one_stage(), {});
  EXPECT_EQ(print(result.memory),
            "0@0:1100 0@0:1115 0@1:1110 0@1:1125 0@2:1120 0@2:1127 0@4:1110 0@4:1117 0@6:1100 ");
  EXPECT_EQ(result.peak_activations, std::vector<int>{2});
}

TEST(Memory, EachRankHoldsItsOwnStages) {
  Costs costs = testing::chain_costs(3, 1, 2);
  costs.stages[0].fixed_bytes = 1;
  costs.stages[1].fixed_bytes = 10;
  costs.stages[2].fixed_bytes = 100;
  const Program program = testing::rows(
      "0F0 0SEND_F0 2RECV_F0 2F0 2B0 2SEND_B0 0RECV_B0 0B0\n"
      "1RECV_F0 1F0 1SEND_F0 1RECV_B0 1B0 1SEND_B0");
  const Simulation result = simulate(program, costs, {});
  EXPECT_EQ(result.peak_memory_bytes, (std::vector<int64_t>{101, 10}));
  EXPECT_EQ(result.peak_activations, (std::vector<int>{2, 1}));
}

// At W0 the rank holds what it keeps for two W; at F1 of the first program what two F saved.
TEST(Memory, ThePeakSaysWhatItIsMadeOf) {
  const auto peak = [](const char* program, const Costs& costs) {
    return simulate(testing::rows(program), costs, {}).peak_memory.at(0);
  };
  EXPECT_EQ(peak("0F0 0F1 0B0 0B1", one_stage()),
            (MemoryParts{.fixed_bytes = 1100, .saved_bytes = 20, .transient_bytes = 7}));
  EXPECT_EQ(peak("0F0 0I0 0F1 0I1 0W0 0W1", one_stage()),
            (MemoryParts{.fixed_bytes = 1100, .saved_weight_bytes = 28, .transient_bytes = 7}));
  Costs recomputing = one_stage();
  recomputing.stages[0].recompute_bytes = 6;
  EXPECT_EQ(
      peak("0F0 0B0", recomputing),
      (MemoryParts{
          .fixed_bytes = 1100, .saved_bytes = 10, .recomputed_bytes = 6, .transient_bytes = 1}));
  EXPECT_EQ(peak("0F0 0B0", recomputing).total(), 1117);
}

/// Two stages on two ranks, 10 bytes each way, of which the first stage does not save 4.
Costs with_messages() {
  Costs costs;
  costs.stages.resize(2, {.forward_s = 1, .backward_s = 1});
  costs.flows = {
      {.from = 0, .to = 1, .forward_bytes = 10, .backward_bytes = 10, .unsaved_bytes = 4}};
  costs.receive_depth = 2;
  return costs;
}

// Rank 0 posts two gradients at once; each F leaves 4 bytes on their way. The first gradient, which
// rank 1 sends having taken all four values, comes when B0 needs it, though it is listed before.
TEST(Memory, MessagesArePostedAheadAndKeptUntilThePeerHasTakenThem) {
  const Program program = testing::rows(
      "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0F2 0SEND_F2 0F3 0SEND_F3 0B0 0RECV_B1 0B1 0RECV_B2 0B2 "
      "0RECV_B3 0B3\n"
      "1RECV_F0 1RECV_F1 1RECV_F2 1RECV_F3 1F0 1F1 1F2 1F3 1B0 1SEND_B0 1B1 1SEND_B1 1B2 1SEND_B2 "
      "1B3 1SEND_B3");
  const std::vector<RankMemory> ranks = memory_of_ranks(program, with_messages());
  EXPECT_EQ(ranks[0].peak_bytes, 20 + 4 * 4 + 10);  // the next is posted before the sent ones go
  // At B3 nothing is on its way there; what it returned three times waits for the step's end.
  EXPECT_EQ(ranks[1].peak_bytes, 4 * 10);
  EXPECT_EQ(ranks[1].peak.message_bytes, 4 * 10);
}

TEST(Memory, MessagesOfOneRankAreThereUntilTheOtherStageTakesThem) {
  const std::vector<RankMemory> ranks =
      memory_of_ranks(testing::rows("0F0 0F1 1F0 1B0 0B0 1F1 1B1 0B1"), with_messages());
  EXPECT_EQ(ranks[0].peak_bytes, 4 + 10);  // what F1 handed on, and the gradient for B0
}

TEST(Memory, ThePeakIsKnownWithoutSamples) {
  const Simulation result =
      simulate(testing::rows("0F0 0B0"), one_stage(), {}, {.timeline = false, .memory = false});
  EXPECT_EQ(result.peak_memory_bytes, std::vector<int64_t>{1117});
  EXPECT_TRUE(result.memory.empty());
  EXPECT_TRUE(result.timeline.empty());
}

}  // namespace
}  // namespace penstock
