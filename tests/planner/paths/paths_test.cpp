// Paths of programs, walks and bounds of boxes by them against the real simulator and all splits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "planner/open/box_tree.hpp"
#include "planner/paths/box_bound.hpp"
#include "planner/paths/least_split.hpp"
#include "planner/paths/walk.hpp"
#include "tests/planner/paths/boxes.hpp"
#include "tests/planner/paths/path_cases.hpp"

namespace penstock::test {
namespace {

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

TEST(SplitBox, TighteningLosesNoSplitAndFindsEnds) {
  int64_t held = 0, narrower = 0;
  for_each_path_case(250, 290, linked_chain, [&](const PathCase& one, std::mt19937_64& random) {
    const SplitTimes& times = one.paths->times();
    const SplitBox box = random_box(times.all(), random);
    SplitBox tight = box;
    const bool any = tighten(tight, times.rank_of_stage(), times.units());
    for (const std::vector<int>& begins : one.splits()) {
      EXPECT_TRUE(holds(times.all(), times, begins));
      if (!holds(box, times, begins)) continue;
      EXPECT_TRUE(any && holds(tight, times, begins));
      ++held;
    }
    if (!any) return;
    SplitBox without_ranks = tight;
    without_ranks.ranks = times.all().ranks;
    EXPECT_TRUE(holds(without_ranks, times, tight.begins.low));
    EXPECT_TRUE(holds(without_ranks, times, tight.begins.high));
    narrower += tight.begins.low != box.begins.low;
  });
  EXPECT_GT(held, 500);
  EXPECT_GT(narrower, 50);
}

TEST(LeastSplit, IsTheLeastOfTheBoxAndNarrowsToTheSplitsThatAreLow) {
  int64_t compared = 0, left_out = 0;
  for_each_path_case(700, 740, linked_chain, [&](const PathCase& one, std::mt19937_64& random) {
    const SplitTimes& times = one.paths->times();
    SplitBox box = random_box(times.all(), random);
    box.ranks = times.all().ranks;
    if (!tighten(box, times.rank_of_stage(), times.units())) return;
    Times weights(times.size());
    for (double& weight : weights) weight = static_cast<double>(random() % 9) - 2;
    std::vector<double> sums;
    for (const std::vector<int>& begins : one.splits())
      if (holds(box, times, begins)) sums.push_back(weighted_sum(weights, times.of(begins)));
    std::ranges::sort(sums);
    const LeastSplit least(times, weights, box);
    ASSERT_FALSE(sums.empty());
    EXPECT_TRUE(holds(box, times, least.begins()));
    EXPECT_EQ(least.sum(), weighted_sum(weights, times.of(least.begins())));
    EXPECT_NEAR(least.sum(), sums.front(), rounding * (1 + std::abs(sums.front())));
    const double most = sums[random() % sums.size()];
    SplitBox narrow = box;
    least.narrow(narrow, most);
    for (const std::vector<int>& begins : one.splits()) {
      if (!holds(box, times, begins) || weighted_sum(weights, times.of(begins)) > most) continue;
      EXPECT_TRUE(holds(narrow, times, begins));
    }
    ++compared;
    left_out += narrow.begins.low != box.begins.low || narrow.begins.high != box.begins.high;
  });
  EXPECT_GT(compared, 300);
  EXPECT_GT(left_out, 100);
}

TEST(BoxBound, NoSplitOfTheBoxHasAShorterLongestPath) {
  int64_t held = 0, sharp = 0, narrowed = 0, divided = 0;
  for_each_path_case(300, 360, linked_chain, [&](const PathCase& one, std::mt19937_64& random) {
    const BoxBound bounds(one.paths);
    const SplitTimes& times = one.paths->times();
    DivisionChoice choice(one.paths->ranks(), times.stages());
    const SplitBox box = random_box(bounds.all(), random);
    const double never = std::numeric_limits<double>::infinity();
    std::vector<double> steps;
    for (const std::vector<int>& begins : one.splits())
      if (holds(box, times, begins)) steps.push_back(one.paths->split_s(begins));
    std::ranges::sort(steps);
    const double least_s = steps.empty() ? never : steps.front();
    const double most_s = steps.empty() ? never : steps[random() % steps.size()];
    const BoxBound::Bound all = bounds.bound(bounds.all(), {}, {never, never}, choice);
    for (const BoxBound::Known& known : {BoxBound::Known{}, all.known}) {
      const BoxBound::Bound bound = bounds.bound(box, known, {never, most_s}, choice);
      EXPECT_LE(bound.seconds, least_s * (1 + rounding));
      for (const std::vector<int>& begins : one.splits()) {
        if (!holds(box, times, begins) || one.paths->split_s(begins) > most_s) continue;
        EXPECT_TRUE(bound.box && holds(*bound.box, times, begins));
      }
      if (steps.empty() || !bound.box) continue;
      EXPECT_GT(bound.seconds, 0);
      ++held;
      sharp += bound.seconds >= least_s * (1 - near_enough);
      narrowed += bound.box->begins.low != box.begins.low;
      divided += !bound.choice.divisions.empty();
    }
  });
  EXPECT_GT(held, 1000);
  EXPECT_GT(sharp, held / 4);  // single splits, at least
  EXPECT_GT(narrowed, 100);
  EXPECT_GT(divided, 100);
}

TEST(BoxBound, GoesOnWhereItEnded) {
  int64_t ended = 0, sharper = 0;
  for_each_path_case(300, 330, linked_chain, [&](const PathCase& one, std::mt19937_64&) {
    const BoxBound bounds(one.paths);
    DivisionChoice choice(one.paths->ranks(), one.paths->times().stages());
    const double never = std::numeric_limits<double>::infinity();
    double least_s = never;
    for (const std::vector<int>& begins : one.splits())
      least_s = std::min(least_s, one.paths->split_s(begins));
    BoxBound::Bound bound{.box = bounds.all(), .more = true};
    std::vector<double> seconds;
    while (bound.more && seconds.size() < 1000) {
      bound = bounds.bound(*bound.box, bound.known, {never, least_s, 0}, choice);
      EXPECT_LE(bound.seconds, least_s * (1 + rounding));
      ASSERT_TRUE(bound.box);
      seconds.push_back(bound.seconds);
    }
    EXPECT_FALSE(bound.more);
    ended += seconds.size() > 1;
    sharper += seconds.back() > seconds.front() * (1 + rounding);
  });
  EXPECT_GT(ended, 50);
  EXPECT_GT(sharper, 50);
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
    BoxTree tree(one.paths, {}, order, 1), on_threads(one.paths, {}, order, 3);
    while (!tree.empty()) {
      const double bound_s = tree.bound_s();
      EXPECT_GE(expected, order.bound(std::min(bound_s, 1e-9 * std::get<1>(best)), 0));
      const SplitRank* incumbent = best < SplitRank(INT64_MAX, 0, 0) ? &best : nullptr;
      const auto begins = tree.step(incumbent);
      EXPECT_EQ(on_threads.step(incumbent), begins);
      EXPECT_EQ(on_threads.effort(), tree.effort());
      if (!begins) continue;
      best = std::min(best, rank_of(*begins));
      ++looked_at;
    }
    EXPECT_EQ(best, expected);
    EXPECT_TRUE(on_threads.empty());
  });
  EXPECT_LT(looked_at, splits);
}

TEST(BoxTree, LosesNothingWhereItWasStopped) {
  int64_t asked = 0;
  for_each_path_case(500, 530, linked_chain, [&](const PathCase& one, std::mt19937_64&) {
    const SplitOrder order;
    const auto rank_of = [&](const std::vector<int>& begins) {
      return order.rank(one.simulated_s(begins), 0);
    };
    SplitRank best(INT64_MAX, 0, 0), expected = best;
    for (const std::vector<int>& begins : one.splits())
      expected = std::min(expected, rank_of(begins));
    BoxTree tree(one.paths, {}, order, 1, [&] { return ++asked % 3 == 0; });
    while (!tree.empty())
      if (const auto begins = tree.step(nullptr)) best = std::min(best, rank_of(*begins));
    EXPECT_EQ(best, expected);
  });
  EXPECT_GT(asked, 300);
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
    EXPECT_EQ(walk.effort(), again.effort());
    EXPECT_LE(walk.effort(), 50 * (1 + judge.effort));
    EXPECT_TRUE(std::ranges::find(splits, walk.begins()) != splits.end());
    EXPECT_EQ(walk.split_s(), one.paths->split_s(walk.begins()));
    EXPECT_LE(walk.split_s(), one.paths->split_s(from));
    shorter += walk.split_s() < one.paths->split_s(from);
  });
  EXPECT_GT(shorter, 100);
}

}  // namespace
}  // namespace penstock::test
