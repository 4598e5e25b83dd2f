// When ranks hold most, against every moment of the programs of all schedules.
#include "planner/bounds/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "base/error.hpp"
#include "pipeline/program/schedule.hpp"
#include "tests/planner/chains.hpp"

namespace penstock::test {
namespace {

std::vector<int> counts(const HeldAtOnce& moment) {
  std::vector<int> counts = moment.held;
  for (const auto* more : {&moment.left, &moment.turning})
    counts.insert(counts.end(), more->begin(), more->end());
  return counts;
}

/// A rank's moments, one behind each action, and one before each backward in one part.
std::vector<std::vector<int>> moments(const Program& compute, const std::vector<Action>& actions) {
  const size_t stages = compute.rank_of_stage.size();
  std::vector<std::vector<int>> moments;
  std::vector<int> now(3 * stages, 0);
  for (const Action& action : actions)
    for_each_part(action, [&](const Action& part) {
      const auto stage = static_cast<size_t>(part.stage);
      if (part.kind == Kind::backward) {
        moments.push_back(now);
        moments.back()[2 * stages + stage] = 1;
      }
      now[stage] += part.kind == Kind::forward;
      now[stage] -= is_input_backward(part.kind);
      now[stages + stage] += part.kind == Kind::backward_input;
      now[stages + stage] -= part.kind == Kind::backward_weight;
      moments.push_back(now);
    });
  return moments;
}

bool covers(const std::vector<int>& one, const std::vector<int>& other) {
  return std::ranges::equal(one, other, std::greater_equal());
}

TEST(FullestMoments, AreThoseThatNoOtherCovers) {
  int programs = 0;
  for (const int microbatches : {1, 2, 4, 9})
    for (const Shape& shape : shapes(8, microbatches)) {
      Program compute;
      try {
        compute = compute_program(shape.schedule, shape.ranks, microbatches, shape.stages_per_rank);
      } catch (const InputError&) {
        continue;  // a shape that this schedule does not run
      }
      SCOPED_TRACE(shape.schedule);
      ++programs;
      const std::vector<HeldAtOnce> fullest = fullest_moments(compute);
      for (int rank = 0; rank < shape.ranks; ++rank) {
        const auto all = moments(compute, compute.ranks[static_cast<size_t>(rank)]);
        std::vector<std::vector<int>> found;
        for (const HeldAtOnce& moment : fullest)
          if (moment.rank == rank) found.push_back(counts(moment));
        for (const std::vector<int>& moment : all)
          EXPECT_TRUE(
              std::ranges::any_of(found, [&](const auto& of) { return covers(of, moment); }));
        for (const std::vector<int>& moment : found) {
          EXPECT_TRUE(std::ranges::find(all, moment) != all.end());
          EXPECT_EQ(
              std::ranges::count_if(found, [&](const auto& of) { return covers(of, moment); }), 1);
        }
      }
    }
  EXPECT_GT(programs, 50);
}

}  // namespace
}  // namespace penstock::test
