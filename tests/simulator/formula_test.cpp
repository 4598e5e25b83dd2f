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
void expect_ramp_only(Program (*schedule)(const ScheduleShape&)) {
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

}  // namespace
}  // namespace penstock
