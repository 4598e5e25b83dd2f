// Bounds of splits in any placement, and of layouts, against the real simulator: every schedule,
// every split of hundreds of small random chains.
#include "planner/splits/placed_space.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "base/error.hpp"
#include "planner/layouts/layout_bound.hpp"
#include "tests/planner/chains.hpp"

namespace penstock::test {
namespace {

/// Bounds of every prefix of the split; the last is the split's own.
std::vector<double> bounds_of(const SplitSpace& space, const std::vector<int>& begins) {
  std::vector<double> bounds{space.min_s()};
  SplitSpace::Prefix known;
  for (size_t stage = 0; stage < begins.size(); ++stage) {
    const int end = stage + 1 < begins.size() ? begins[stage + 1] : space.units();
    const int left = static_cast<int>(begins.size() - stage);
    known = space.extend(known, begins[stage], end, left);
    bounds.push_back(space.min_s(known, end, left - 1));
  }
  return bounds;
}

int64_t expect_bounds_hold(const Chain& chain, const Shape& shape) {
  Program compute;
  try {
    compute =
        compute_program(shape.schedule, shape.ranks, shape.microbatches, shape.stages_per_rank);
  } catch (const InputError&) {
    return 0;  // a shape that this schedule does not run
  }
  const auto owned = split_space(chain, shape.schedule, compute, shape.speeds);
  const SplitSpace& space = *owned;
  const LayoutBound any(split_costs(chain, true));
  const double any_s = any.step_s(RankSpeeds(shape.speeds), shape.microbatches);
  int64_t checked = 0;
  for (const std::vector<int>& begins : all_splits(chain.costs.units(), space.stages())) {
    const Simulation run = simulate_program(chain, begins, compute, shape.speeds);
    const double room = run.makespan_s * (1 + rounding);
    for (const double bound : bounds_of(space, begins)) EXPECT_LE(bound, room);
    EXPECT_LE(space.split_s(begins), room);
    EXPECT_LE(any_s, room);
    EXPECT_LE(space.min_bytes(), *std::ranges::max_element(run.peak_memory_bytes));
    ++checked;
  }
  return checked;
}

void expect_bounds_hold(uint64_t from, uint64_t to, bool breaks, bool equal_ranks = true) {
  int64_t checked = 0;
  std::mt19937_64 random(from);
  for (uint64_t seed = from; seed < to; ++seed) {
    const Chain chain = small_chain(seed, breaks);
    for (Shape& shape : shapes(chain.costs.units(), 1 + static_cast<int>(seed / 3 % 8))) {
      if (!equal_ranks) shape.speeds = random_speeds(random, shape.ranks);
      SCOPED_TRACE(::testing::Message()
                   << "seed " << seed << ", " << shape.schedule << " on " << shape.ranks << " x "
                   << shape.stages_per_rank << ", " << shape.microbatches << " microbatches");
      checked += expect_bounds_hold(chain, shape);
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(checked, 5000);
}

TEST(PlacedSpace, BoundsOfEveryPrefixAreNeverAboveTheSimulation) {
  expect_bounds_hold(0, 150, false);
}

TEST(PlacedSpace, TheyHoldWhereNothingOrNoGradientCrossesSomeCuts) {
  expect_bounds_hold(1000, 1100, true);
}

TEST(PlacedSpace, TheyHoldOnRanksOfUnequalSpeed) { expect_bounds_hold(2000, 2150, false, false); }

/// Bounds that know nothing of shared cores hold the more, and that of a layout which knows them.
TEST(PlacedSpace, TheyHoldOnRanksThatShareCores) {
  int64_t checked = 0, closer = 0;
  for (uint64_t seed = 3000; seed < 3060; ++seed) {
    const Chain chain = small_chain(seed, false);
    const LayoutBound layout(split_costs(chain, true));
    for (const Shape& shape : shapes(chain.costs.units(), 1 + static_cast<int>(seed / 3 % 8))) {
      Program compute;
      try {
        compute =
            compute_program(shape.schedule, shape.ranks, shape.microbatches, shape.stages_per_rank);
      } catch (const InputError&) {
        continue;  // a shape that this schedule does not run
      }
      const int cores = 1 + static_cast<int>(seed % 2);
      const RankSpeeds speeds = equal_ranks(shape.ranks);
      const double shared_s = layout.step_s(speeds, shape.microbatches, cores);
      closer += shared_s > layout.step_s(speeds, shape.microbatches);
      const auto space = split_space(chain, shape.schedule, compute, shape.speeds);
      for (const std::vector<int>& begins : all_splits(chain.costs.units(), space->stages())) {
        const Simulation run = simulate_program(chain, begins, compute, {}, cores);
        const double room = run.makespan_s * (1 + rounding);
        ASSERT_LE(shared_s, room) << "seed " << seed << ", " << shape.schedule;
        for (const double bound : bounds_of(*space, begins)) ASSERT_LE(bound, room);
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 1000);
  EXPECT_GT(closer, 100);
}

/// Backwards may be whole or in two parts, and microbatch 0 takes half a second less for B or for I
/// with W. Alone the units' I take less than that; of the stage W pays the rest where it runs B.
TEST(PlacedSpace, TheyHoldWhereMicrobatch0TakesLessThanItsInputsAlone) {
  Chain chain = random_chain(1, {.units = 3, .extras = false});
  chain.costs.backward_s = {0.6, 0.1, 0.5};
  chain.input_s = {0.1, 0.5, 0.5};
  chain.weight_s = {0.5, 0, 0};
  chain.costs.first_forward_s = {0, 0, 0};
  chain.costs.first_backward_s = {-0.3, -0.2, 0};
  const Program compute = compute_program("1f1b", 2, 1);
  const PlacedSpace either(split_costs(chain, true), bytes_of(chain), placement(compute),
                           equal_ranks(2));
  const double room = simulate_program(chain, {0, 2}, compute).makespan_s * (1 + rounding);
  for (const double bound : bounds_of(either, {0, 2})) EXPECT_LE(bound, room);
}

/// `adaptive` runs a stage's backwards whole or in two parts, whichever is faster for the stage.
TEST(PlacedSpace, TheyHoldForAdaptive) {
  int64_t checked = 0, sharper = 0;
  for (uint64_t seed = 4000; seed < 4120; ++seed) {
    const Chain chain = small_chain(seed, seed % 5 == 0);
    const ChainCosts costs = split_costs(chain, true);
    ChainCosts alone = costs;
    alone.whole_s.clear();
    alone.parts_s.clear();
    for (int stages = 2; stages <= costs.units(); ++stages) {
      Placement placement{.ranks = 2 + static_cast<int>(seed % 2),
                          .microbatches = 1 + static_cast<int>(seed / 3 % 5),
                          .rank_of_stage = {},
                          .held = std::vector<int>(static_cast<size_t>(stages), 0)};
      if (stages < placement.ranks) continue;
      for (int stage = 0; stage < stages; ++stage)
        placement.rank_of_stage.push_back(stage % placement.ranks);
      const RankSpeeds speeds = equal_ranks(placement.ranks);
      const PlacedSpace space(costs, bytes_of(chain), placement, speeds);
      const PlacedSpace of_units(alone, bytes_of(chain), placement, speeds);
      for (const std::vector<int>& begins : all_splits(costs.units(), stages)) {
        const double room = simulate_adaptive(chain, begins, placement).makespan_s * (1 + rounding);
        const std::vector<double> bounds = bounds_of(space, begins);
        for (const double bound : bounds) ASSERT_LE(bound, room) << "seed " << seed;
        ++checked;
        sharper += bounds.front() > of_units.min_s() || bounds.back() > of_units.split_s(begins);
      }
    }
  }
  EXPECT_GT(checked, 1000);
  EXPECT_GT(sharper, 200);
}

TEST(PlacedSpace, IsExactForEqualStagesAndFreeTransfers) {
  // 1F1B: (M + P - 1)(F + B), as published.
  Chain chain = random_chain(1, {.units = 4, .equal = true, .extras = false, .transfer_scale = 0});
  for (double& s : chain.costs.cut_forward_s) s = 0;
  for (double& s : chain.costs.cut_backward_s) s = 0;
  const Program compute = compute_program("1f1b", 4, 8);
  const double each_s = chain.costs.forward_s[0] + chain.costs.backward_s[0];
  EXPECT_NEAR(placed_space(chain, "1f1b", compute).min_s(), 11 * each_s, rounding * 11 * each_s);
}

// Of four microbatches three fit: a quarter of what a rank keeps must be made again.
TEST(PlacedSpace, WhatDoesNotFitIsMadeAgainAtTheLeastCost) {
  Chain chain = random_chain(1, {.units = 2, .equal = true, .extras = false, .transfer_scale = 0});
  const Program compute = compute_program("gpipe", 2, 4);
  const auto bytes = bytes_of(chain);
  const auto per_microbatch = static_cast<double>(bytes->at(0, 1).per_microbatch);
  const int64_t limit = bytes->at(0, 1).kept(3);
  const double again_s = 4 * chain.costs.forward_s[0];
  const RecomputeBound recompute({{again_s, per_microbatch}, {again_s, per_microbatch}});
  const PlacedSpace free(chain.costs, bytes, placement(compute), equal_ranks(2));
  const PlacedSpace tight(chain.costs, bytes, placement(compute), equal_ranks(2), {},
                          PlacedSpace::Recompute{limit, recompute});
  EXPECT_NEAR(tight.split_s({0, 1}) - free.split_s({0, 1}), again_s / 4,
              rounding * free.split_s({0, 1}));
}

TEST(Placement, HoldsWhatTheSchedulePublishesAsHeldAtOnce) {
  EXPECT_EQ(placement(compute_program("1f1b", 4, 8)).held, (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(placement(compute_program("gpipe", 2, 8)).held, (std::vector<int>{8, 8}));
  for (const int ranks : {2, 4}) {
    // ZB-V: 2P stages x microbatches on every rank.
    const Placement zbv = placement(compute_program("zbv", ranks, 4 * ranks, 2));
    std::vector<int> held(static_cast<size_t>(ranks), 0);
    for (size_t stage = 0; stage < zbv.held.size(); ++stage)
      held[static_cast<size_t>(zbv.rank_of_stage[stage])] += zbv.held[stage];
    EXPECT_EQ(held, std::vector<int>(static_cast<size_t>(ranks), 2 * ranks));
  }
}

}  // namespace
}  // namespace penstock::test
