// `check` refuses every corrupted program and names the culprit.
#include "pipeline/program/check.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/pipeline/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string refusal(const std::string& csv, const std::vector<Flow>& flows) {
  const Program program = parse_csv(csv, "p.csv");
  return input_error([&] { check(program, flows, "p.csv"); });
}

/// Two stages, one microbatch, with `a` for `b` replaced.
std::string pair_with(const std::string& from, const std::string& to) {
  std::string csv = "0F0,0SEND_F0,0RECV_B0,0B0,0OPT\n1RECV_F0,1F0,1B0,1SEND_B0,1OPT";
  const size_t at = csv.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return csv.replace(at, from.size(), to);
}

TEST(Check, AcceptsASoundProgram) {
  EXPECT_EQ(refusal(pair_with("0F0", "0F0"), chain_flows(2)), "");
  EXPECT_EQ(refusal("0F0,0SEND_F0\n1RECV_F0,1F0", chain_flows(2)), "") << "forward only";
  EXPECT_EQ(refusal("0F0,0B0\n1F0,1I0,1W0", {}), "") << "stages that exchange nothing";
}

TEST(Check, ComputeIsCompleteOnceAndInOrder) {
  const auto chain = chain_flows(2);
  EXPECT_THAT(refusal(pair_with("1F0,", "1F0,1F0,"), chain),
              StartsWith("p.csv: rank 1: 1F0 runs twice"));
  EXPECT_THAT(refusal(pair_with("1B0,", "1B0,1B0,"), chain),
              StartsWith("p.csv: rank 1: 1B0 is a second backward"));
  EXPECT_THAT(refusal(pair_with("1B0,", "1I0,"), chain),
              StartsWith("p.csv: rank 1: 1W0 is missing"));
  EXPECT_THAT(refusal(pair_with("1B0,", "1I0,1W0,1W0,"), chain), HasSubstr("1W0 runs twice"));
  EXPECT_THAT(refusal(pair_with("1B0,", "1W0,1I0,"), chain), HasSubstr("1W0 comes before its I"));
  EXPECT_THAT(refusal(pair_with("1B0,", "1I0,1B0,"), chain), HasSubstr("1B0 is a second backward"));
  EXPECT_THAT(refusal(pair_with("1F0,1B0", "1B0,1F0"), chain), HasSubstr("1B0 comes before its F"));
  EXPECT_THAT(refusal(pair_with("1B0,1SEND_B0,", ""), chain),
              AllOf(StartsWith("p.csv: rank 1: 1B0 is missing"), HasSubstr("or its I and W")));
  EXPECT_THAT(refusal("0F0,0F1,0F2,0F3\n1F0,1F2,1F3", {}),
              HasSubstr("7 actions cannot run 4 microb"));
  EXPECT_THAT(refusal("0F0,0F2,0B0,0B2\n1F0,1F2,1B0,1B2", {}), HasSubstr("0F1 is missing"));
}

TEST(Check, ProgramsMadeByHandInMemoryStayInRange) {
  Program program = parse_csv("0F0\n1F0", "");
  const auto with = [&](const Action& action) {
    Program changed = program;
    changed.ranks[0].push_back(action);
    return input_error([&] { check_compute(changed, "here"); });
  };
  EXPECT_THAT(with({2, Kind::forward, 0}), StartsWith("here: rank 0: 2F0 has stage 2 of 2"));
  EXPECT_THAT(with({1, Kind::forward, 0}), HasSubstr("1F0 is of a stage that belongs to rank 1"));
  EXPECT_THAT(with({0, Kind::forward, 7}), HasSubstr("0F7 has a microbatch outside 0..0"));
  EXPECT_THAT(with({0, Kind::forward, -1}), HasSubstr("microbatch outside"));
  EXPECT_THAT(with({0, Kind::overlap, 0}), HasSubstr("is no overlap"));
  program.rank_of_stage[1] = 5;
  EXPECT_THAT(input_error([&] { check_compute(program, "here"); }), HasSubstr("on rank 5 of 2"));
  EXPECT_THAT(input_error([&] { check_compute({}, "here"); }), HasSubstr("0 actions"));
}

TEST(Check, TransfersAreNeededCompleteAndInOrder) {
  const auto chain = chain_flows(2);
  EXPECT_THAT(refusal(pair_with("1RECV_F0,", ""), chain),
              AllOf(StartsWith("p.csv: rank 1: 1F0 has no 1RECV_F0 before it"),
                    HasSubstr("Penstock adds")));
  EXPECT_THAT(refusal(pair_with("1RECV_F0,1F0", "1F0,1RECV_F0"), chain),
              HasSubstr("1F0 has no 1RECV_F0"));
  EXPECT_THAT(refusal(pair_with("0RECV_B0,", ""), chain),
              HasSubstr("0B0 has no 0RECV_B0 before it"));
  EXPECT_THAT(refusal(pair_with("0SEND_F0,", ""), chain), HasSubstr("rank 0: 0SEND_F0 is missing"));
  EXPECT_THAT(refusal(pair_with("1SEND_B0,", ""), chain), HasSubstr("rank 1: 1SEND_B0 is missing"));
  EXPECT_THAT(refusal(pair_with("0F0,0SEND_F0", "0SEND_F0,0F0"), chain),
              HasSubstr("0SEND_F0 comes before the F that produces"));
  EXPECT_THAT(refusal(pair_with("1B0,1SEND_B0", "1SEND_B0,1B0"), chain),
              HasSubstr("1SEND_B0 comes before the backward"));
  EXPECT_THAT(refusal(pair_with("0SEND_F0,", "0SEND_F0,0SEND_F0,"), chain),
              HasSubstr("0SEND_F0 runs twice"));
  EXPECT_THAT(refusal(pair_with("0SEND_F0,", "0SEND_F0,0SEND_F3,"), chain),
              HasSubstr("0F1 is missing"));
  EXPECT_THAT(refusal(pair_with("0SEND_F0,", "0SEND_F0,0SEND_F0:3,"), chain),
              HasSubstr("no such value flows between stages 0 and 3"));
  EXPECT_THAT(refusal(pair_with("0F0", "0F0"), {{0, 1, false}}),
              HasSubstr("0RECV_B0 moves nothing"));
  EXPECT_THAT(refusal("0F0,0SEND_F0,1RECV_F0,1F0", chain), HasSubstr("0SEND_F0 is needless"));
  EXPECT_THAT(refusal("1F0,0F0", chain), HasSubstr("1F0 comes before 0F0, whose output it uses"));
  EXPECT_THAT(refusal("0F0,1F0,0B0,1B0", chain),
              HasSubstr("0B0 comes before the backward of stage 1"));
}

TEST(Check, UpdatesComeOnceAndLast) {
  const auto chain = chain_flows(2);
  EXPECT_THAT(refusal(pair_with("0B0,0OPT", "0OPT,0B0"), chain),
              HasSubstr("0OPT comes before the stage's last backward"));
  EXPECT_THAT(refusal(pair_with("0OPT", "0OPT,0OPT"), chain), HasSubstr("0OPT runs twice"));
  EXPECT_THAT(refusal(pair_with("0OPT", "0OPT,0REDUCE_GRAD"), chain),
              HasSubstr("0REDUCE_GRAD comes after the stage's OPT"));
  EXPECT_THAT(refusal("0F0,0OPT", {}), HasSubstr("before the stage's last backward"));
  EXPECT_THAT(refusal("0F0,0I0,0REDUCE_GRAD,0W0", {}), HasSubstr("0REDUCE_GRAD comes before"));
}

TEST(Check, ChannelsMatchInOrder) {
  EXPECT_THAT(
      refusal("0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F1,1F1,1RECV_F0,1F0", chain_flows(2)),
      AllOf(HasSubstr(
                "transfer 0 from rank 0 to rank 1: rank 0 sends 0SEND_F0, rank 1 expects 1RECV_F1"),
            HasSubstr("alike")));
  // Two flows over one channel: stages 0 and 2 of rank 0 feed 1 and 3 of rank 1.
  EXPECT_THAT(refusal("0F0,2F0,2SEND_F0,0SEND_F0\n1RECV_F0,1F0,3RECV_F0,3F0", {{0, 1}, {2, 3}}),
              HasSubstr("rank 0 sends 2SEND_F0, rank 1 expects 1RECV_F0"));
}

TEST(Check, ADeadlockListsWhoWaitsForWhom) {
  // Each rank waits for the other's activations before it sends its own.
  EXPECT_THAT(
      refusal("0F0,3RECV_F0,3F0,0SEND_F0:2\n1F0,2RECV_F0:0,2F0,1SEND_F0:3", {{0, 2}, {1, 3}}),
      HasSubstr("rank 0: 3RECV_F0 moves nothing"));
  EXPECT_THAT(
      refusal("0F0,3RECV_F0:1,3F0,0SEND_F0:2\n1F0,2RECV_F0:0,2F0,1SEND_F0:3", {{0, 2}, {1, 3}}),
      AllOf(StartsWith("p.csv: the program deadlocks"),
            HasSubstr("rank 0 at 3RECV_F0:1, for rank 1"),
            HasSubstr("rank 1 at 2RECV_F0:0, for rank 0")));
}

/// Two ranks in a V, a skip connection, several microbatches, every kind of transfer.
const std::vector<Flow> skip_flows = {{0, 1}, {1, 2}, {2, 3}, {0, 2}};

Program sound() {
  const Program compute = parse_csv(
      "0F0,0F1,0F2,3F0,3B0,0B0,3F1,3B1,0B1,3F2,3B2,0B2\n"
      "1F0,2F0,1F1,2F1,1F2,2F2,2I0,1B0,2W0,2B1,1B1,2B2,1B2",
      "");
  return lower(compute, skip_flows, {.reduce_stages = {0, 3}, .optimizer = true});
}

bool is_update(Kind kind) { return kind == Kind::reduce_grad || kind == Kind::optimizer; }

TEST(Check, RemovingAnyOneActionIsRefused) {
  const Program program = sound();
  ASSERT_EQ(input_error([&] { check(program, skip_flows, ""); }), "");
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    for (size_t i = 0; i < program.ranks[rank].size(); ++i) {
      const Action action = program.ranks[rank][i];
      if (is_update(action.kind)) continue;  // a program without updates is sound
      Program changed = program;
      changed.ranks[rank].erase(changed.ranks[rank].begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_THAT(input_error([&] { check(changed, skip_flows, ""); }), Not(IsEmpty()))
          << to_string(action);
    }
  }
}

TEST(Check, RepeatingAnyOneActionIsRefusedByName) {
  const Program program = sound();
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    for (const Action& action : program.ranks[rank]) {
      Program changed = program;
      changed.ranks[rank].push_back(action);
      EXPECT_THAT(input_error([&] { check(changed, skip_flows, ""); }),
                  HasSubstr(to_string(action)));
    }
  }
}

TEST(Check, SwappingATransferWithTheActionThatNeedsItIsRefused) {
  const Program program = sound();
  int swaps = 0;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    for (size_t i = 0; i + 1 < program.ranks[rank].size(); ++i) {
      const Action& first = program.ranks[rank][i];
      const Action& second = program.ranks[rank][i + 1];
      const bool produced = is_compute(first.kind) && is_send(second.kind);
      if (!produced) continue;
      ++swaps;
      Program changed = program;
      std::swap(changed.ranks[rank][i], changed.ranks[rank][i + 1]);
      EXPECT_THAT(input_error([&] { check(changed, skip_flows, ""); }),
                  HasSubstr(to_string(second) + " comes before"));
    }
  }
  // One per microbatch: 0F, 1B and 2B (its first SEND), 2F and 3B; 1F and 0B stay on or end the
  // rank.
  EXPECT_EQ(swaps, 15);
}

}  // namespace
}  // namespace penstock
