// Tags, channels and the sends that a receive proves done, on a program with a skip connection, by
// hand.
#include <gtest/gtest.h>

#include "backend/executor/transfers.hpp"
#include "backend/executor/update/reduction.hpp"
#include "pipeline/program/lowering.hpp"
#include "pipeline/program/schedule.hpp"

namespace penstock {
namespace {

/// 0 -> 1 carries values 10 (with gradient) and 11 (without); 0 -> 2 carries 10; 1 -> 2 carries 12.
Slicing three_stages() {
  Slicing slicing;
  slicing.stages.resize(3);
  slicing.edges = {{0, 1, {{10, true}, {11, false}}}, {0, 2, {{10, true}}}, {1, 2, {{12, true}}}};
  return slicing;
}

Program lowered(int microbatches) {
  return lower(one_f_one_b.generate({3, 1, microbatches}), {{0, 1}, {0, 2}, {1, 2}});
}

const ResolvedTransfer& transfer(const Program& program, const RankTransfers& transfers, int rank,
                                 const std::string& action) {
  for (const auto& [position, resolved] : transfers.actions) {
    if (to_string(program.ranks[rank][position]) == action) return resolved;
  }
  throw std::out_of_range(action);
}

std::vector<std::pair<ValueId, int>> messages(const ResolvedTransfer& transfer) {
  std::vector<std::pair<ValueId, int>> list;
  for (const TaggedValue& message : transfer.messages)
    list.emplace_back(message.value, message.tag);
  return list;
}

using List = std::vector<std::pair<ValueId, int>>;

TEST(Transfers, TagsNumberEdgeValuesThenMicrobatches) {
  const Program program = lowered(4);
  const auto zero = resolve_transfers(program, three_stages(), 0);
  // Values number 0: (0,1,10), 1: (0,1,11), 2: (0,2,10), 3: (1,2,12); tag = 2 (4 number + m) +
  // back.
  EXPECT_EQ(messages(transfer(program, zero, 0, "0SEND_F3")), (List{{10, 6}, {11, 14}}));
  EXPECT_EQ(messages(transfer(program, zero, 0, "0SEND_F1:2")), (List{{10, 18}}));
  EXPECT_EQ(messages(transfer(program, zero, 0, "0RECV_B2")), (List{{10, 5}}));
  EXPECT_EQ(transfer(program, zero, 0, "0SEND_F1:2").channel, (PeerChannel{2, false}));
  const auto one = resolve_transfers(program, three_stages(), 1);
  EXPECT_EQ(messages(transfer(program, one, 1, "1SEND_B2")), (List{{10, 5}}));
  EXPECT_EQ(messages(transfer(program, one, 1, "1RECV_F3")), (List{{10, 6}, {11, 14}}));
  EXPECT_EQ(free_tag(program, three_stages()), 2 * 4 * 4);
}

TEST(Transfers, BothSidesOfEveryMessageAgree) {
  const Program program = lowered(5);
  std::map<std::tuple<int, int, bool>, List> sent, received;
  for (int rank = 0; rank < 3; ++rank) {
    for (const auto& [position, moved] : resolve_transfers(program, three_stages(), rank).actions) {
      const bool sends = is_send(program.ranks[rank][position].kind);
      const int from = sends ? rank : moved.channel.peer, to = sends ? moved.channel.peer : rank;
      List& list = (sends ? sent : received)[{from, to, moved.channel.gradients}];
      for (const auto& message : messages(moved)) list.push_back(message);
    }
  }
  EXPECT_EQ(sent, received);
  EXPECT_EQ(sent.size(), 6u);
}

TEST(Transfers, AReceiveProvesThatEarlierSendsArrived) {
  const Program program = lowered(4);
  const auto zero = resolve_transfers(program, three_stages(), 0);
  // Rank 1 sends the gradient of microbatch 0 after it received at least the activations of 0.
  const ResolvedTransfer& back = transfer(program, zero, 0, "0RECV_B0");
  const auto before =
      std::find(program.ranks[1].begin(), program.ranks[1].end(), parse_action("1SEND_B0", ""));
  const auto received = std::count_if(program.ranks[1].begin(), before, [](const Action& action) {
    return action.kind == Kind::recv_forward;
  });
  ASSERT_EQ(back.arrived.size(), 1u);
  EXPECT_EQ(back.arrived[0].first, (PeerChannel{1, false}));
  EXPECT_EQ(back.arrived[0].second, received);
  EXPECT_GE(received, 1);
}

TEST(Transfers, ReplicasNameRanksOfTheWholeRun) {
  const Program program = lowered(2);
  const auto zero = resolve_transfers(program, three_stages(), 0, 3);
  EXPECT_EQ(transfer(program, zero, 0, "0SEND_F0").channel, (PeerChannel{4, false}));
}

}  // namespace
}  // namespace penstock
