// Paths of programs, walks and bounds of boxes by them against the real simulator and all splits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "base/error.hpp"
#include "planner/paths/box_bound.hpp"
#include "planner/paths/walk.hpp"
#include "planner/splits/box_tree.hpp"
#include "tests/planner/chains.hpp"

namespace penstock::test {
namespace {

struct PathCase {
  Chain chain;
  Shape shape;
  Program compute;
  std::shared_ptr<const ProgramPaths> paths;

  std::vector<std::vector<int>> splits() const {
    return all_splits(chain.costs.units(), paths->times().stages());
  }
  double simulated_s(const std::vector<int>& begins) const {
    return simulate_program(chain, begins, compute, shape.speeds).makespan_s;
  }
};

/// Every shape that its schedule runs, of chains for those seeds. Speeds differ with odd seeds.
void for_each_path_case(uint64_t from, uint64_t to, const std::function<Chain(uint64_t)>& make,
                        const std::function<void(const PathCase&, std::mt19937_64&)>& check) {
  for (uint64_t seed = from; seed < to; ++seed) {
    std::mt19937_64 random(seed);
    const Chain chain = make(seed);
    for (Shape& shape : shapes(chain.costs.units(), 1 + static_cast<int>(seed / 3 % 8))) {
      if (seed % 2 == 1) shape.speeds = random_speeds(random, shape.ranks);
      SCOPED_TRACE(::testing::Message()
                   << "seed " << seed << ", " << shape.schedule << " on " << shape.ranks << " x "
                   << shape.stages_per_rank << ", " << shape.microbatches << " microbatches");
      PathCase one{chain, shape, {}, nullptr};
      try {
        one.compute =
            compute_program(shape.schedule, shape.ranks, shape.microbatches, shape.stages_per_rank);
      } catch (const InputError&) {
        continue;  // a shape that this schedule does not run
      }
      one.paths = std::make_shared<const ProgramPaths>(
          one.compute, SplitTimes(schedule_costs(chain, shape.schedule), placement(one.compute),
                                  RankSpeeds(shape.speeds)));
      check(one, random);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

Chain linked_chain(uint64_t seed) { return small_chain(seed); }

Chain bare_chain(uint64_t seed) {
  Chain chain = random_chain(seed, {.units = 5, .extras = false});
  chain.link = {};
  std::ranges::fill(chain.costs.cut_forward_s, 0);
  std::ranges::fill(chain.costs.cut_backward_s, 0);
  std::ranges::fill(chain.forward_bytes, 0);
  std::ranges::fill(chain.backward_bytes, 0);
  return chain;
}

TEST(ProgramPaths, NoSplitIsSimulatedToBeFasterThanItsPaths) {
  int64_t checked = 0;
  for_each_path_case(0, 120, linked_chain, [&](const PathCase& one, std::mt19937_64&) {
    for (const std::vector<int>& begins : one.splits()) {
      EXPECT_LE(one.paths->split_s(begins), one.simulated_s(begins) * (1 + rounding));
      ++checked;
    }
  });
  EXPECT_GT(checked, 10'000);
}

TEST(ProgramPaths, ASplitTakesItsPathWhereNothingElseCosts) {
  for_each_path_case(200, 230, bare_chain, [&](const PathCase& one, std::mt19937_64&) {
    if (one.shape.schedule == "dualpipev") return;  // some backwards are whole, some in two parts
    if (*std::ranges::max_element(one.shape.speeds) < 1) return;  // costs are the fastest rank's
    for (const std::vector<int>& begins : one.splits()) {
      const double simulated_s = one.simulated_s(begins);
      EXPECT_NEAR(one.paths->split_s(begins), simulated_s, simulated_s * rounding);
    }
  });
}

/// Bounds on where stages begin, and on units per rank, of which some may hold nothing.
RankBox random_box(const RankBox& all, std::mt19937_64& random) {
  RankBox box = all;
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
  };
  const auto narrow = [&](int& low, int& high) {
    if (random() % 2 == 0) low = between(low, high);
    if (random() % 2 == 0) high = between(low, high);
  };
  for (size_t stage = 1; stage < box.begins.low.size(); ++stage)
    narrow(box.begins.low[stage], box.begins.high[stage]);
  for (size_t rank = 0; rank < box.min_units.size(); ++rank)
    narrow(box.min_units[rank], box.max_units[rank]);
  return box;
}

bool holds(const RankBox& box, const SplitTimes& times, const std::vector<int>& begins) {
  std::vector<int> units(box.min_units.size(), 0);
  for (size_t stage = 0; stage < begins.size(); ++stage) {
    const int end = stage + 1 < begins.size() ? begins[stage + 1] : times.units();
    units[static_cast<size_t>(times.rank_of_stage()[stage])] += end - begins[stage];
    if (begins[stage] < box.begins.low[stage] || begins[stage] > box.begins.high[stage])
      return false;
  }
  for (size_t rank = 0; rank < units.size(); ++rank)
    if (units[rank] < box.min_units[rank] || units[rank] > box.max_units[rank]) return false;
  return true;
}

TEST(BoxBound, NoSplitOfTheBoxHasAShorterLongestPath) {
  constexpr double missed = 1e-3;  // of a unit: the solver's tolerance, and that of the box
  int64_t held = 0, sharp = 0, unsettled = 0, raised = 0;
  for_each_path_case(300, 360, linked_chain, [&](const PathCase& one, std::mt19937_64& random) {
    const BoxBound bounds(one.paths);
    const RankBox box = random_box(bounds.all(), random);
    const double never = std::numeric_limits<double>::infinity();
    const BoxBound::Bound bound = bounds.bound(box, {}, never);
    double least_s = never;
    for (const std::vector<int>& begins : one.splits())
      if (holds(box, one.paths->times(), begins))
        least_s = std::min(least_s, one.paths->split_s(begins));
    EXPECT_LE(bound.seconds, least_s * (1 + rounding));
    const BoxBound::Bound all = bounds.bound(bounds.all(), {}, never);
    const BoxBound::Bound inside = bounds.bound(box, all.known, never);
    const BoxBound::Bound again = bounds.bound(box, inside.known, never);
    EXPECT_LE(inside.seconds, least_s * (1 + rounding));
    EXPECT_LE(again.seconds, least_s * (1 + rounding));
    if (std::isinf(least_s)) return;
    for (size_t rank = 0; rank < inside.units.size(); ++rank) {
      EXPECT_GE(inside.units[rank], box.min_units[rank] - missed);
      EXPECT_LE(inside.units[rank], box.max_units[rank] + missed);
    }
    unsettled += !inside.settled;
    raised += again.seconds > inside.seconds * (1 + near_enough);
    EXPECT_FALSE(bound.begins.empty());
    EXPECT_GT(bound.seconds, 0);
    ++held;
    sharp += bound.seconds >= least_s * (1 - near_enough);
  });
  EXPECT_GT(held, 500);
  EXPECT_GT(sharp, held / 4);  // single splits, at least
  EXPECT_GT(unsettled, 0);
  EXPECT_GT(raised, 0);
}

TEST(BoxTree, FindsWhatTryingAllFinds) {
  int64_t looked_at = 0, splits = 0;
  for_each_path_case(500, 560, linked_chain, [&](const PathCase& one, std::mt19937_64&) {
    const SplitOrder order;
    SplitRank best(INT64_MAX, 0, 0), expected = best;
    const auto rank_of = [&](const std::vector<int>& begins) {
      return order.rank(one.simulated_s(begins), 0);
    };
    for (const std::vector<int>& begins : one.splits()) {
      expected = std::min(expected, rank_of(begins));
      ++splits;
    }
    BoxTree tree(one.paths, {}, order);
    while (!tree.empty()) {
      const double bound_s = tree.bound_s();
      EXPECT_GE(expected, order.bound(std::min(bound_s, 1e-9 * std::get<1>(best)), 0));
      const SplitRank* incumbent = best < SplitRank(INT64_MAX, 0, 0) ? &best : nullptr;
      const auto begins = tree.step(incumbent);
      if (!begins) continue;
      best = std::min(best, rank_of(*begins));
      ++looked_at;
    }
    EXPECT_EQ(best, expected);
  });
  EXPECT_LT(looked_at, splits);
}

TEST(Walk, NeverComesToALongerPath) {
  int64_t shorter = 0;
  for_each_path_case(600, 620, linked_chain, [&](const PathCase& one, std::mt19937_64& random) {
    const auto splits = one.splits();
    const std::vector<int>& from = splits[random() % splits.size()];
    const Walk::Judge judge = judged_by(*one.paths);
    Walk walk(judge, one.chain.costs.units(), from, 7);
    Walk again(judge, one.chain.costs.units(), from, 7);
    walk.go_on(50);
    again.go_on(20);
    again.go_on(30);
    EXPECT_EQ(walk.begins(), again.begins());
    EXPECT_TRUE(std::ranges::find(splits, walk.begins()) != splits.end());
    EXPECT_EQ(walk.split_s(), one.paths->split_s(walk.begins()));
    EXPECT_LE(walk.split_s(), one.paths->split_s(from));
    shorter += walk.split_s() < one.paths->split_s(from);
  });
  EXPECT_GT(shorter, 100);
}

}  // namespace
}  // namespace penstock::test
