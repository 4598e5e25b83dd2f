// What is known about the published schedules: makespan, bubble and what is held at once.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/simulator/helpers.hpp"

namespace penstock {
namespace {

using testing::chain_costs;
using testing::lowered;

struct Shape {
  int ranks, microbatches;
};

std::vector<Shape> grid() {
  std::vector<Shape> shapes;
  for (const int ranks : {1, 2, 3, 4, 5, 8, 13}) {
    for (const int microbatches : {1, 2, 3, 4, 7, 8, 16, 33})
      shapes.push_back({ranks, microbatches});
  }
  return shapes;
}

// Makespan (M + P - 1)(F + B), bubble (P - 1) / (M + P - 1), for F and B of any ratio. Sums of
// multiples of 1/4 are exact, so the makespan is compared for equality; the bubble is one division
// of exact numbers away from the formula, each side rounds at most twice.
void expect_ramp_only(const Schedule& schedule) {
  for (const auto& [ranks, microbatches] : grid()) {
    for (const auto& [forward_s, backward_s] : {std::pair{1.0, 2.0}, {1.0, 1.0}, {2.25, 0.5}}) {
      const Simulation result = simulate(lowered(schedule, ranks, microbatches),
                                         chain_costs(ranks, forward_s, backward_s), {},
                                         {.timeline = false, .memory = false});
      const double steps = microbatches + ranks - 1;
      EXPECT_EQ(result.makespan_s, steps * (forward_s + backward_s))
          << ranks << " ranks, " << microbatches << " microbatches";
      EXPECT_NEAR(result.bubble, (ranks - 1) / steps, 4e-16);
    }
  }
}

TEST(Formula, GPipeWithFreeTransfersIdlesOnlyInItsRamp) { expect_ramp_only(gpipe); }
TEST(Formula, OneFOneBWithFreeTransfersIdlesOnlyInItsRamp) { expect_ramp_only(one_f_one_b); }

TEST(Formula, GPipeHoldsEveryMicrobatch) {
  for (const auto& [ranks, microbatches] : grid()) {
    const Simulation result =
        simulate(lowered(gpipe, ranks, microbatches), chain_costs(ranks, 1, 2), {});
    EXPECT_EQ(result.peak_activations, std::vector<int>(static_cast<size_t>(ranks), microbatches));
  }
}

TEST(Formula, OneFOneBHoldsAsManyMicrobatchesAsRanksFollow) {
  for (const auto& [ranks, microbatches] : grid()) {
    const Simulation result =
        simulate(lowered(one_f_one_b, ranks, microbatches), chain_costs(ranks, 1, 2), {});
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(result.peak_activations[static_cast<size_t>(rank)],
                std::min(microbatches, ranks - rank));
    }
  }
}

// F = 1 ms, B = 2 ms, 16 MB, 25 GB/s, 10 us, eager: makespans that an independent simulator gave,
// to the six decimals that are published.
TEST(Formula, OneFOneBWithTransfersGivesTheWorkedValues) {
  struct Worked {
    int ranks, microbatches;
    double makespan_s;
  };
  const Link link{.latency_s = 10e-6, .bandwidth = 25e9};
  for (const Worked& worked : {Worked{8, 512, 2.147200}, Worked{8, 4096, 16.976000},
                               Worked{64, 512, 2.460800}, Worked{64, 4096, 17.799200}}) {
    const Simulation result = simulate(lowered(one_f_one_b, worked.ranks, worked.microbatches),
                                       chain_costs(worked.ranks, 1e-3, 2e-3, 16'000'000), link,
                                       {.timeline = false, .memory = false});
    EXPECT_NEAR(result.makespan_s, worked.makespan_s, 0.5e-6)
        << worked.ranks << " ranks, " << worked.microbatches << " microbatches";
  }
}

/// F, I and W of every stage, in quarters of a second, so that sums are exact.
struct Times {
  double forward_s, input_s, weight_s;
};

Simulation run(const char* schedule, const ScheduleShape& shape, const Times& times) {
  const Program program = find_schedule(schedule, "").generate(shape);
  const auto flows = chain_flows(program.stage_count());
  const StageCosts each{.forward_s = times.forward_s,
                        .backward_s = times.input_s + times.weight_s,
                        .backward_input_s = times.input_s,
                        .backward_weight_s = times.weight_s};
  return simulate_compute(program, flows, equal_stages(program.stage_count(), each, flows, 0), {},
                          {.timeline = false, .memory = false});
}

const std::vector<Times>& some_times() {
  static const std::vector<Times> times = {{1, 1, 1},         {1, 1, 0.5},    {1, 1.5, 1},
                                           {1.25, 1.5, 1},    {1, 0.75, 0.5}, {2, 1, 1},
                                           {0.75, 1.25, 0.5}, {1, 1, 0}};
  return times;
}

// Interleaved: M (F+B) and a ramp of (P-1)(F+B) / v, F and B those of a whole rank, where the
// rounds are full: M a multiple of P.
TEST(Formula, InterleavedOneFOneBHasARampThatIsShorterByTheStagesPerRank) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int v : {1, 2, 3}) {
      for (const int rounds : {1, 2, 5}) {
        for (const Times& times : some_times()) {
          const int microbatches = ranks * rounds;
          const double stage_s = times.forward_s + times.input_s + times.weight_s;
          EXPECT_EQ(run("interleaved-1f1b", {ranks, v, microbatches}, times).makespan_s,
                    (v * microbatches + ranks - 1) * stage_s)
              << ranks << " ranks, " << v << " stages each, " << microbatches << " microbatches";
        }
      }
    }
  }
}

// ZB-H1: makespan - M (F+I+W) = (P-1)(F+I-W) where W <= F and W <= I.
TEST(Formula, ZbH1IdlesAThirdOfOneFOneB) {
  int compared = 0;
  for (const auto& [ranks, microbatches] : grid()) {
    for (const Times& times : some_times()) {
      if (times.weight_s > times.forward_s || times.weight_s > times.input_s) continue;
      if (microbatches < ranks) continue;  // the pipeline never fills
      const double work_s = microbatches * (times.forward_s + times.input_s + times.weight_s);
      const double idle_s = (ranks - 1) * (times.forward_s + times.input_s - times.weight_s);
      EXPECT_EQ(run("zb-h1", {ranks, 1, microbatches}, times).makespan_s, work_s + idle_s)
          << ranks << " ranks, " << microbatches << " microbatches";
      ++compared;
    }
  }
  EXPECT_GE(compared, 100);
}

// ZB-H2: the longest span of a rank - M (F+I+W) = (P-1) max(0, F+I-2W), min(I, W) <= F, M >= 2P-1.
TEST(Formula, ZbH2HasNoIdleTimeInsideARankWhereWIsLong) {
  int compared = 0;
  for (const auto& [ranks, microbatches] : grid()) {
    for (const Times& times : some_times()) {
      if (std::min(times.input_s, times.weight_s) > times.forward_s) continue;
      if (microbatches < 2 * ranks - 1) continue;
      const Simulation result = run("zb-h2", {ranks, 1, microbatches}, times);
      double longest_s = 0;
      for (size_t rank = 0; rank < result.rank_start_s.size(); ++rank) {
        longest_s = std::max(longest_s, result.rank_end_s[rank] - result.rank_start_s[rank]);
      }
      const double work_s = microbatches * (times.forward_s + times.input_s + times.weight_s);
      const double idle_s = times.forward_s + times.input_s - 2 * times.weight_s;
      EXPECT_EQ(longest_s, work_s + (ranks - 1) * std::max(0.0, idle_s))
          << ranks << " ranks, " << microbatches << " microbatches";
      ++compared;
    }
  }
  EXPECT_GE(compared, 100);
}

// ZB-V with F = I = W: each rank is busy from its first action to its last, 6 M.
TEST(Formula, ZbvHasNoIdleTimeInsideARankWhereAllTakeEquallyLong) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    for (const int microbatches : {2 * ranks - 1, 2 * ranks, 3 * ranks + 1, 33}) {
      const Simulation result = run("zbv", {ranks, 2, microbatches}, {1, 1, 1});
      for (size_t rank = 0; rank < result.rank_start_s.size(); ++rank) {
        EXPECT_EQ(result.rank_end_s[rank] - result.rank_start_s[rank], 6 * microbatches);
      }
    }
  }
}

}  // namespace
}  // namespace penstock
