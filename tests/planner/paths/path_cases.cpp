#include "tests/planner/paths/path_cases.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "planner/paths/rank_paths.hpp"

namespace penstock::test {

namespace {

/// With what is known of the units that ranks share.
std::shared_ptr<const ProgramPaths> paths_of(const PathCase& one) {
  const Placement placed = placement(one.compute);
  const RankSpeeds speeds(one.shape.speeds);
  const SplitTimes times(schedule_costs(one.chain, one.shape.schedule), placed, speeds);
  const bool posts = posts_when_reached(one.chain.link);
  auto shared = std::make_shared<const SharedUnits>(
      times, rank_paths(ProgramPaths(one.compute, times, posts)),
      std::make_shared<const WholeRecompute>(placed, speeds), 1);
  return std::make_shared<const ProgramPaths>(
      one.compute, times, posts, ProgramPaths::Recompute{nullptr, nullptr, std::move(shared)});
}

}  // namespace

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
      one.paths = paths_of(one);
      check(one, random);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

Chain linked_chain(uint64_t seed) {
  Chain chain = small_chain(seed);
  if (seed % 4 == 2) chain.link.mode = SendMode::rendezvous;
  if (seed % 4 == 3) {
    chain.link.mode = SendMode::posted;
    chain.link.receive_depth = 0;
  }
  return chain;
}

Chain bare_chain(uint64_t seed) {
  Chain chain = random_chain(seed, {.units = 5, .extras = false});
  chain.link = {};
  std::ranges::fill(chain.costs.cut_forward_s, 0);
  std::ranges::fill(chain.costs.cut_backward_s, 0);
  std::ranges::fill(chain.forward_bytes, 0);
  std::ranges::fill(chain.backward_bytes, 0);
  return chain;
}

}  // namespace penstock::test
