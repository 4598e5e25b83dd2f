// A program that cannot finish is reported, with each waiting rank and what it waits for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/simulator/helpers.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string refusal(const Program& program, const Link& link = {}) {
  try {
    simulate(program, testing::chain_costs(program.stage_count(), 1, 2), link);
  } catch (const InputError& error) {
    return error.what();
  }
  return "finished";
}

TEST(Deadlock, TwoRanksThatWaitForEachOtherAreBothNamed) {
  const Program program = testing::rows(
      "0RECV_B0 0B0 0F0 0SEND_F0\n"
      "1RECV_F0 1F0 1B0 1SEND_B0");
  EXPECT_THAT(refusal(program),
              AllOf(HasSubstr("deadlock"),
                    HasSubstr("rank 0 waits at 0B0 for 1SEND_B0 of rank 1, which comes 2 "
                              "actions after where that rank waits"),
                    HasSubstr("rank 1 waits at 1F0 for 0SEND_F0 of rank 0, which comes 2 "
                              "actions after where that rank waits")));
}

TEST(Deadlock, AMissingSendIsNamedAndFinishedRanksAreNot) {
  const Program program = testing::rows("0F0\n1RECV_F0 1F0\n2F0");
  EXPECT_THAT(refusal(program),
              AllOf(HasSubstr("rank 1 waits at 1F0 for 0SEND_F0 of rank 0, which is not in its "
                              "program"),
                    Not(HasSubstr("rank 0 waits")), Not(HasSubstr("rank 2"))));
}

TEST(Deadlock, ReceivesThatWaitNowhereElseWaitWhereTheyAre) {
  const Program program = testing::rows("0F0 0RECV_B0\n1F0");
  EXPECT_THAT(refusal(program), HasSubstr("rank 0 waits at 0RECV_B0 for 1SEND_B0 of rank 1"));
}

// Each rank sends before it posts what the other sends.
TEST(Deadlock, SendsThatMeetFinishEagerlyButNotInRendezvous) {
  const Program program = testing::rows(
      "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0\n"
      "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1");
  EXPECT_EQ(refusal(program), "finished");
  EXPECT_EQ(refusal(program, {.mode = SendMode::posted}), "finished");
  EXPECT_THAT(refusal(program, {.mode = SendMode::rendezvous}),
              AllOf(HasSubstr("rank 0 waits at 0SEND_F1 for 1RECV_F1"),
                    HasSubstr("rank 1 waits at 1SEND_B0 for 0RECV_B0")));
}

TEST(Deadlock, ARankThatNeverReachesItsOptimizerIsWhatTheOthersWaitFor) {
  const Program program = testing::rows("0F0 0OPT\n1RECV_F0 1F0 1OPT");
  EXPECT_THAT(refusal(program), AllOf(HasSubstr("rank 0 waits at 0OPT for OPT of rank 1"),
                                      HasSubstr("rank 1 waits at 1F0")));
}

TEST(Deadlock, AChannelWhoseEndsDisagreeIsRefused) {
  const Program program = testing::rows(
      "0F0 0F1 0SEND_F1 0SEND_F0\n"
      "1RECV_F0 1F0 1RECV_F1 1F1");
  EXPECT_THAT(refusal(program), HasSubstr("rank 0 sends 0SEND_F1 where rank 1 receives 1RECV_F0"));
}

TEST(Deadlock, ATransferToAStageThatIsNotThereIsRefused) {
  EXPECT_THAT(refusal(testing::rows("0F0 0SEND_F0:9\n1F0")),
              AllOf(HasSubstr("0SEND_F0:9"), HasSubstr("stages 0 to 1")));
}

TEST(Deadlock, ATransferWithinARankIsRefused) {
  EXPECT_THAT(refusal(testing::rows("0F0 0SEND_F0 1RECV_F0 1F0")),
              HasSubstr("between two stages of rank 0"));
}

}  // namespace
}  // namespace penstock
