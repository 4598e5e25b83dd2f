// Devices whose hosts run ahead of them, or do not keep up.
#include <gtest/gtest.h>

#include "simulator/explain/critical_path.hpp"
#include "simulator/explain/idle.hpp"
#include "tests/simulator/random_program.hpp"

namespace penstock {
namespace {

using testing::rows;

/// F 1 s and B 2 s on the device; the host needs so long to issue each.
Costs launched(int stages, double forward_host_s, double backward_host_s) {
  Costs costs = testing::chain_costs(stages, 1, 2);
  for (StageCosts& stage : costs.stages) {
    stage.forward_host_s = forward_host_s;
    stage.backward_host_s = stage.backward_input_host_s = backward_host_s;
  }
  return costs;
}

CriticalPath path_of(const Program& program, const Costs& costs) {
  const CompiledProgram compiled = compile(program, costs, {});
  return critical_path(program, compiled, run_engine(compiled, {}, true), {});
}

// Issued in half the time that it runs: only the first action could notice, and what is issued
// first of it runs at once.
TEST(Launch, AHostThatKeepsUpCostsNothing) {
  const Program program = testing::lowered(one_f_one_b, 4, 8);
  const Simulation behind = simulate(program, launched(4, 0.5, 1), {});
  EXPECT_EQ(testing::print(behind.timeline),
            testing::print(simulate(program, launched(4, 0, 0), {}).timeline));
}

//  s        0    1    2    3    4    5    6    7    8    9
//  rank 0   F0............   .......idle.......  B0......     its host: F0 to 3, B0 to 7
//  rank 1   ....idle......   F0   B0............              its host the same, F0 long before it
//  came
TEST(Launch, AnActionEndsWhenItsHostHasIssuedItAll) {
  const Simulation simulation = simulate(testing::lowered(gpipe, 2, 1), launched(2, 3, 4), {});
  EXPECT_EQ(testing::print(simulation.timeline),
            "0 0F0 0 3\n"
            "1 1RECV_F0 0 3\n"
            "0 0SEND_F0 3 3\n"
            "0 0RECV_B0 3 7\n"
            "1 1F0 3 4\n"
            "1 1B0 4 7\n"
            "0 0B0 7 9\n"
            "1 1SEND_B0 7 7\n");
  EXPECT_EQ(simulation.busy_s, (std::vector<double>{3, 3}));
}

// Without hosts F0 to 1, F0 to 2, B0 to 4, B0 to 6 s: each rank idles 3 s. With them 6 s.
TEST(Launch, IdleTimeSaysWhatHostsThatAreNeverBehindWouldSave) {
  for (const IdleParts& rank : idle_parts(testing::lowered(gpipe, 2, 1), launched(2, 3, 4), {})) {
    EXPECT_EQ(rank.launch_s, 3);
    EXPECT_EQ(rank.ramp_s, 3);
    EXPECT_EQ(rank.total_s(), 6);
  }
}

// The host of rank 1 works from the start to 7 s, whatever its device waits for meanwhile.
TEST(Launch, TheCriticalPathLeadsAlongTheHost) {
  const CriticalPath path = path_of(testing::lowered(gpipe, 2, 1), launched(2, 3, 4));
  ASSERT_EQ(path.steps.size(), 3u);
  EXPECT_EQ(path.steps[0].part, PathStep::Part::launch);
  EXPECT_EQ(path.steps[0].rank, 1);
  EXPECT_EQ(to_string(path.steps[0].action), "1B0");
  EXPECT_EQ(path.steps[0].end_s, 7);
  EXPECT_EQ(path.steps[1].part, PathStep::Part::transfer);
  EXPECT_EQ(to_string(path.steps[2].action), "0B0");
  EXPECT_EQ(path.launch_s, 7);
  EXPECT_EQ(path.compute_s, 2);
  EXPECT_EQ(path.rank_s, (std::vector<double>{2, 7}));
}

// The F of stage 1 takes no time to issue, but comes after that of stage 0.
TEST(Launch, AnActionWaitsUntilItsHostHasIssuedWhatIsBeforeIt) {
  Costs costs = launched(1, 0, 0);
  costs.stages.push_back(costs.stages[0]);
  costs.stages[0].forward_host_s = 5;
  const Program program = parse_csv("0F0,1F0", "test");
  const Simulation simulation = simulate(program, costs, {});
  EXPECT_EQ(testing::print(simulation.timeline), "0 0F0 0 5\n0 1F0 5 6\n");
}

// All hosts wait for the loss before OPT, and start anew from there.
TEST(Launch, HostsWaitForTheAgreement) {
  Costs costs = launched(2, 0, 0);
  for (StageCosts& stage : costs.stages) stage.optimizer_s = 1;
  costs.stages[1].backward_host_s = 10;
  costs.stages[0].forward_host_s = 2;
  const Program program = rows("0F0 0B0 0OPT 0F1\n1F0 1B0 1OPT");
  const Simulation simulation = simulate(program, costs, {});
  EXPECT_EQ(testing::print(simulation.timeline),
            "0 0F0 0 2\n"
            "1 1F0 0 1\n"
            "1 1B0 1 10\n"
            "0 0B0 2 4\n"
            "0 0OPT 10 11\n"
            "1 1OPT 10 11\n"
            "0 0F1 11 12\n");
  const CriticalPath path = path_of(program, costs);
  EXPECT_EQ(path.launch_s, 10);
  EXPECT_EQ(path.compute_s, 2);
}

// An action can never start before its host has issued what is before it, nor end before it has
// issued the action itself; and a step never becomes shorter by hosts.
TEST(Launch, HoldsBackRandomProgramsAndNothingElse) {
  int slowed = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const testing::Case tested = testing::make_case(seed);
    SCOPED_TRACE(testing::describe(tested, seed));
    Costs free = tested.costs;
    for (StageCosts& stage : free.stages) {
      stage.forward_host_s = stage.backward_host_s = stage.backward_input_host_s =
          stage.backward_weight_host_s = 0;
    }
    const Simulation simulation = simulate(tested.program, tested.costs, tested.link);
    const Simulation without = simulate(tested.program, free, tested.link);
    EXPECT_GE(simulation.makespan_s, without.makespan_s);
    slowed += simulation.makespan_s > without.makespan_s;
    for (int rank = 0; rank < tested.program.rank_count(); ++rank) {
      double issued_s = 0;
      for (const Action& action : tested.program.ranks[static_cast<size_t>(rank)]) {
        if (!is_compute(action.kind)) continue;
        const auto event = std::ranges::find_if(simulation.timeline, [&](const auto& each) {
          return each.rank == rank && each.action == action;
        });
        EXPECT_GE(event->start_s, issued_s);
        issued_s += tested.costs.host_s(action);
        EXPECT_GE(event->end_s, issued_s);
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(slowed, 20);
}

}  // namespace
}  // namespace penstock
