// The critical path of hand-made runs, and what must hold of it in every run.
#include "simulator/explain/critical_path.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <numeric>

#include "simulator/engine/compile.hpp"
#include "tests/simulator/random_program.hpp"

namespace penstock {
namespace {

using Part = PathStep::Part;
using Cause = PathStep::Cause;

struct TracedRun {
  CompiledProgram compiled;
  EngineResult times;
  CriticalPath path;
  double makespan_s = 0;
};

TracedRun run(const Program& program, const Costs& costs, const Link& link) {
  TracedRun result;
  result.compiled = compile(program, costs, link);
  result.times = run_engine(result.compiled, link, true);
  result.path = critical_path(program, result.compiled, result.times, link);
  for (const RankTimes& rank : result.times.ranks) {
    result.makespan_s = std::max(result.makespan_s, rank.now_s);
  }
  return result;
}

/// A line per step: what, from when to when, and what it waited for.
std::string print(const CriticalPath& path) {
  std::string text;
  for (const PathStep& step : path.steps) {
    text += fmt::format("{} {} {}-{}: {}\n", name(step.part), to_string(step.action), step.start_s,
                        step.end_s, describe(step.cause));
  }
  return text;
}

//  s        0    1    2    3    4    5    6    7    8    9   10
//  rank 0   F0   F1   .........idle.......   B0.....  B1......
//  rank 1   ....   F0   F1   B0.......  B1.......
TEST(CriticalPath, FollowsTheMessagesOfGPipeWithTransfersOfHalfASecond) {
  const TracedRun result =
      run(testing::lowered(gpipe, 2, 2), testing::chain_costs(2, 1, 2, 1), {.latency_s = 0.5});
  EXPECT_EQ(print(result.path),
            "compute 0F0 0-1: nothing: it begins the step\n"
            "transfer 0SEND_F0 1-1.5: the previous action of its rank\n"
            "compute 1F0 1.5-2.5: the message that it needs\n"
            "compute 1F1 2.5-3.5: the previous action of its rank\n"
            "compute 1B0 3.5-5.5: the previous action of its rank\n"
            "transfer 1SEND_B0 5.5-6: the previous action of its rank\n"
            "compute 0B0 6-8: the message that it needs\n"
            "compute 0B1 8-10: the previous action of its rank\n");
  EXPECT_EQ(result.path.compute_s, 9);
  EXPECT_EQ(result.path.transfer_s, 1);
  EXPECT_EQ(result.path.reduce_s + result.path.wait_s, 0);
  EXPECT_EQ(result.path.rank_s, (std::vector<double>{5, 4}));
}

// Two messages of 4 s follow F0; the second has to wait until the first has left, and both arrive
// half a second after their last byte.
TEST(CriticalPath, AMessageWaitsForTheOneBeforeItOnTheChannel) {
  const Program program = testing::rows("0F0 0SEND_F0 0F1 0SEND_F1\n1RECV_F0 1F0 1RECV_F1 1F1");
  const TracedRun result =
      run(program, testing::chain_costs(2, 1, 2, 1), {.latency_s = 4, .propagation_s = 0.5});
  EXPECT_EQ(print(result.path),
            "compute 0F0 0-1: nothing: it begins the step\n"
            "transfer 0SEND_F0 1-5: the previous action of its rank\n"
            "transfer 0SEND_F1 5-9.5: the message before it on the channel\n"
            "compute 1F1 9.5-10.5: the message that it needs\n");
}

// Nothing is posted ahead, so the second message waits until rank 1 has done F0 and asks for it.
TEST(CriticalPath, APostedMessageWaitsForItsReceive) {
  const Program program = testing::rows("0F0 0SEND_F0 0F1 0SEND_F1\n1RECV_F0 1F0 1RECV_F1 1F1");
  Costs costs = testing::chain_costs(2, 1, 2, 1);
  costs.stages[1].forward_s = 3;
  const TracedRun result =
      run(program, costs, {.latency_s = 0.5, .mode = SendMode::posted, .receive_depth = 0});
  EXPECT_EQ(print(result.path),
            "compute 0F0 0-1: nothing: it begins the step\n"
            "transfer 0SEND_F0 1-1.5: the previous action of its rank\n"
            "compute 1F0 1.5-4.5: the message that it needs\n"
            "transfer 0SEND_F1 4.5-5: a receive to be posted\n"
            "compute 1F1 5-8: the message that it needs\n");
}

// Rank 0 may not go on to F1 before F0's outputs have left.
TEST(CriticalPath, ARendezvousHoldsItsSender) {
  const Program program = testing::rows("0F0 0SEND_F0 0F1\n1RECV_F0 1F0");
  const TracedRun result = run(program, testing::chain_costs(2, 1, 2, 1),
                               {.latency_s = 0.5, .mode = SendMode::rendezvous});
  EXPECT_EQ(print(result.path),
            "compute 0F0 0-1: nothing: it begins the step\n"
            "transfer 0SEND_F0 1-1.5: the previous action of its rank\n"
            "compute 0F1 1.5-2.5: the message that it needs\n");
}

TEST(CriticalPath, TheOptimizerWaitsForTheLastRankAndItsAllReduce) {
  Costs costs = testing::chain_costs(2, 1, 2);
  costs.stages[0].optimizer_s = 1;
  costs.stages[1].reduce_s = 5;
  const Program program = testing::rows("0F0 0B0 0REDUCE_GRAD 0OPT\n1F0 1B0 1REDUCE_GRAD 1OPT");
  const TracedRun result = run(program, costs, {});
  EXPECT_EQ(print(result.path),
            "compute 1F0 0-1: nothing: it begins the step\n"
            "compute 1B0 1-3: the previous action of its rank\n"
            "all-reduce 1REDUCE_GRAD 3-8: the previous action of its rank\n"
            "compute 0OPT 8-9: the last rank to come to OPT\n");
  EXPECT_EQ(result.path.reduce_s, 5);
  EXPECT_EQ(result.path.rank_s, (std::vector<double>{1, 8}));
}

// Times that the engine's rules do not explain (here a network that held the message back for a
// second) are neither lost nor invented.
TEST(CriticalPath, SecondsThatNothingRecordedExplainsAreAWait) {
  const Program program = testing::rows("0F0 0SEND_F0\n1RECV_F0 1F0");
  const Costs costs = testing::chain_costs(2, 1, 2, 1);
  TracedRun result = run(program, costs, {.latency_s = 1});
  const Message& message = result.compiled.messages[0];
  const auto send = static_cast<size_t>(message.send_task);
  const auto receive = static_cast<size_t>(message.receive_task);
  for (double* time : {&result.times.start_s[send], &result.times.end_s[send],
                       &result.times.end_s[receive], &result.times.start_s[receive + 1],
                       &result.times.end_s[receive + 1], &result.times.ranks[1].now_s}) {
    *time += 1;
  }
  const CriticalPath path = critical_path(program, result.compiled, result.times, {});
  EXPECT_EQ(print(path),
            "compute 0F0 0-1: nothing: it begins the step\n"
            "wait 0SEND_F0 1-2: something that is not recorded\n"
            "transfer 0SEND_F0 2-3: the previous action of its rank\n"
            "compute 1F0 3-4: the message that it needs\n");
  EXPECT_EQ(path.wait_s, 1);
}

TEST(CriticalPath, ARunWithoutRecordedTimesIsOurMistake) {
  const Program program = testing::rows("0F0");
  const CompiledProgram compiled = compile(program, testing::chain_costs(1, 1, 1), {});
  EXPECT_THROW(critical_path(program, compiled, run_engine(compiled, {}, false), {}),
               std::invalid_argument);
}

double length_s(const PathStep& step) { return step.end_s - step.start_s; }

/// Times are multiples of 1/256 s (a quarter of a latency of 1/64), so sums are exact.
void expect_gapless(const TracedRun& result) {
  double at_s = 0;
  for (const PathStep& step : result.path.steps) {
    EXPECT_EQ(step.start_s, at_s) << to_string(step.action);
    EXPECT_NE(step.part, Part::wait) << "the engine's rules explain every second";
    at_s = step.end_s;
  }
  EXPECT_EQ(at_s, result.makespan_s);
  const CriticalPath& path = result.path;
  const double on_ranks_s = path.compute_s + path.reduce_s + path.launch_s;
  EXPECT_EQ(on_ranks_s + path.transfer_s + path.wait_s, result.makespan_s);
  EXPECT_EQ(std::accumulate(path.rank_s.begin(), path.rank_s.end(), 0.0), on_ranks_s);
}

/// What the host of the rank takes for all up to the action.
double issued_s(const testing::Case& tested, const PathStep& step) {
  double sum_s = 0;
  for (const Action& action : tested.program.ranks[static_cast<size_t>(step.rank)]) {
    sum_s += tested.costs.host_s(action);
    if (action == step.action) break;
  }
  return sum_s;
}

/// Each step is as long as its costs say: none of them hides a wait.
void expect_full(const testing::Case& tested, const CriticalPath& path) {
  for (const PathStep& step : path.steps) {
    if (step.part == Part::compute) {
      EXPECT_EQ(length_s(step), tested.costs.duration_s(step.action)) << to_string(step.action);
      continue;
    }
    if (step.part == Part::launch) {
      EXPECT_EQ(length_s(step), issued_s(tested, step)) << to_string(step.action);
      continue;
    }
    const double moves_s = tested.link.transfer_s(tested.costs.message_bytes(step.action));
    const bool arrives = length_s(step) == moves_s + tested.link.propagation_s;
    EXPECT_TRUE(arrives || length_s(step) == moves_s) << to_string(step.action);
  }
}

TEST(CriticalPath, OfRandomProgramsHasNoGapAndAddsUp) {
  std::map<Cause, int> causes;
  std::map<Part, int> parts;
  for (unsigned seed = 0; seed < 600; ++seed) {
    const testing::Case tested = testing::make_case(seed);
    SCOPED_TRACE(testing::describe(tested, seed));
    const TracedRun result = run(tested.program, tested.costs, tested.link);
    expect_gapless(result);
    expect_full(tested, result.path);
    for (const PathStep& step : result.path.steps) {
      ++causes[step.cause];
      ++parts[step.part];
    }
    if (HasFailure()) return;
  }
  for (const Cause cause : {Cause::previous, Cause::message, Cause::channel, Cause::receive}) {
    EXPECT_GT(causes[cause], 100) << describe(cause);
  }
  EXPECT_GT(parts[Part::launch], 20);
}

/// How often each stage runs that kind on the path.
std::vector<int> count(const CriticalPath& path, Kind kind, size_t stages) {
  std::vector<int> times(stages, 0);
  for (const PathStep& step : path.steps) {
    if (step.part == Part::compute && step.action.kind == kind) {
      ++times[static_cast<size_t>(step.action.stage)];
    }
  }
  return times;
}

// No task of the path could start earlier: had one of them taken a second more, the step would
// have. Sends that wait for a receive in the receiver's own order are left out: there the receiver
// may do something else first.
TEST(CriticalPath, AnythingOnItThatTakesLongerMakesTheStepAsMuchLonger) {
  int checked = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const testing::Case tested = testing::make_case(seed);
    if (tested.link.mode == SendMode::posted && tested.link.receive_depth > 0) continue;
    SCOPED_TRACE(testing::describe(tested, seed));
    const TracedRun before = run(tested.program, tested.costs, tested.link);
    for (const auto& [kind, time] :
         {std::pair{Kind::forward, &StageCosts::forward_s},
          std::pair{Kind::backward, &StageCosts::backward_s},
          std::pair{Kind::backward_input, &StageCosts::backward_input_s}}) {
      const std::vector<int> times = count(before.path, kind, tested.costs.stages.size());
      for (size_t stage = 0; stage < times.size(); ++stage) {
        testing::Case slower = tested;
        slower.costs.stages[stage].*time += 1;
        const TracedRun after = run(slower.program, slower.costs, slower.link);
        EXPECT_GE(after.makespan_s, before.makespan_s + times[stage]);
        checked += times[stage];
      }
    }
    Link slower = tested.link;
    slower.latency_s += 1;
    const auto transfers = std::ranges::count(before.path.steps, Part::transfer, &PathStep::part);
    EXPECT_GE(run(tested.program, tested.costs, slower).makespan_s,
              before.makespan_s + static_cast<double>(transfers));
    if (HasFailure()) return;
  }
  EXPECT_GT(checked, 1000);
}

// The buckets of stage 0 queue behind those of stage 1; only what no backward hides is on the path.
TEST(CriticalPath, EndsWithTheAllReducesThatRunBesideCompute) {
  const Program program = testing::rows("0F0 1F0 1B0 1REDUCE_GRAD 0B0 0REDUCE_GRAD 0OPT 1OPT");
  StageCosts stage{.forward_s = 1, .backward_s = 4, .optimizer_s = 1};
  for (const double left_s : {3, 2, 1, 0})
    stage.sums.push_back({.sum_s = 2, .left_of_backward_s = left_s});
  Costs costs;
  costs.stages = {stage, stage};
  costs.flows = {{0, 1, 0, 0}};
  const TracedRun traced = run(program, costs, Link{});
  // F and F until 2, B of stage 1 until 6; its buckets until 11, those of stage 0 until 19; OPT
  // until 21.
  EXPECT_EQ(traced.path.compute_s, 2 + 4 + 2);
  EXPECT_EQ(traced.path.reduce_s, 5 + 8);
  EXPECT_EQ(traced.path.wait_s, 0);
}

}  // namespace
}  // namespace penstock
