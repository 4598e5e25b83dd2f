#include "pipeline/program/action.hpp"

#include <gmock/gmock.h>

#include "tests/pipeline/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Action, PrintsAndParsesEveryKind) {
  for (const char* text :
       {"2F0", "0B17", "3I4", "12W9", "1SEND_F0", "2RECV_F0", "2SEND_B5", "1RECV_B5", "1SEND_F0:5",
        "5RECV_F0:1", "5SEND_B3:1", "1RECV_B3:5", "0SEND_F2:3", "3REDUCE_GRAD", "0OPT",
        "(0F1;7B0)OVERLAP_F_B", "(0F1;7I0)OVERLAP_F_B"}) {
    const Action action = parse_action(text, "here");
    EXPECT_EQ(to_string(action), text);
    EXPECT_EQ(parse_action(to_string(action), "here"), action);
  }
}

TEST(Action, PartsOfAName) {
  EXPECT_EQ(parse_action("12SEND_F34", ""), (Action{12, Kind::send_forward, 34}));
  EXPECT_EQ(parse_action("1RECV_B3:5", ""), (Action{1, Kind::recv_backward, 3, 5}));
  EXPECT_EQ(parse_action("3REDUCE_GRAD", ""), (Action{3, Kind::reduce_grad}));
  const Action overlap = parse_action("(0F1;7B0)OVERLAP_F_B", "");
  EXPECT_EQ(forward_part(overlap), (Action{0, Kind::forward, 1}));
  EXPECT_EQ(backward_part(overlap), (Action{7, Kind::backward, 0}));
}

TEST(Action, PeerOfATransferIsTheNeighbourUnlessNamed) {
  EXPECT_EQ(peer_stage(parse_action("4SEND_F0", "")), 5);
  EXPECT_EQ(peer_stage(parse_action("4RECV_F0", "")), 3);
  EXPECT_EQ(peer_stage(parse_action("4SEND_B0", "")), 3);
  EXPECT_EQ(peer_stage(parse_action("4RECV_B0", "")), 5);
  EXPECT_EQ(peer_stage(parse_action("4SEND_B0:1", "")), 1);
}

TEST(Action, ANeighbourNamedAsPeerIsTheSameAction) {
  EXPECT_EQ(parse_action("1SEND_F0:2", ""), parse_action("1SEND_F0", ""));
  EXPECT_EQ(to_string({1, Kind::send_forward, 0, 2}), "1SEND_F0");
}

TEST(Action, WhatIsNoActionIsRefusedWithPlaceValueAndCure) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "the stage is missing"},
      {"F0", "the stage is missing"},
      {"-1F0", "the stage is missing"},
      {"2F", "the microbatch is missing"},
      {"2F-1", "no kind"},
      {"2f0", "`f` is no kind"},
      {"0WAIT_SEND_F1", "`WAIT_SEND_F` is no kind"},
      {"0UNSHARD", "`UNSHARD` is no kind"},
      {"2F0x", "`x` is left over"},
      {"2F0:1", "`:1` is left over"},
      {"2REDUCE_GRAD4", "`4` is left over"},
      {"99999999999F0", "the stage is too large"},
      {"0F99999999999", "the microbatch is too large"},
      // Found by fuzzing: one more did not fit into an int.
      {"0F2147483647", "the microbatch is too large"},
      {"2147483647SEND_F0", "the stage is too large"},
      {"1SEND_F0:", "the peer is missing"},
      {"1SEND_F0:1", "exchanges nothing with itself"},
      {"0SEND_B0", "stage 0 has no previous stage"},
      {"(0F1;7B0", "`)OVERLAP_F_B` is missing"},
      {"(0F1)OVERLAP_F_B", "one F, then one B or I"},
      {"(0B1;7F0)OVERLAP_F_B", "one F, then one B or I"},
      {"(0F1;1F1;7B0)OVERLAP_F_B", "one F, then one B or I"},
      {"((0F1;7B0)OVERLAP_F_B;7B0)OVERLAP_F_B", "the stage is missing"},
  };
  for (const auto& [text, problem] : cases) {
    EXPECT_THAT(input_error([&text = text] { parse_action(text, "a.csv: row 3"); }),
                AllOf(StartsWith(std::string("a.csv: row 3: `") + text + "` is not an action"),
                      HasSubstr(problem), HasSubstr("Write STAGE KIND MICROBATCH")))
        << text;
  }
}

}  // namespace
}  // namespace penstock
