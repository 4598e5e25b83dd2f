// The search over every schedule and shape at once, against trying every split of each.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "base/error.hpp"
#include "planner/layouts/layout_bound.hpp"
#include "planner/splits/search.hpp"
#include "tests/planner/chains.hpp"
#include "tests/planner/splits/in_blocks.hpp"
#include "tests/planner/splits/try_all.hpp"

namespace penstock::test {
namespace {

/// One shape of a chain.
class ShapeSpace : public OpenSpace {
 public:
  ShapeSpace(const Chain& chain, const Shape& shape)
      : chain_(chain),
        compute_(compute_program(shape.schedule, shape.ranks, shape.microbatches,
                                 shape.stages_per_rank)),
        speeds_(shape.speeds),
        limit_{.reserved_bytes = shape.reserved_bytes},
        splits_(split_space(chain, shape.schedule, compute_, speeds_, shape.reserved_bytes)) {}

  const SplitSpace& splits() const override { return *splits_; }
  SplitOutcome simulate(const std::vector<int>& begins, const Aim& /*aim*/) override {
    const Simulation run = simulate_program(chain_, begins, compute_, speeds_);
    return {run.makespan_s, limit_.fullest(run.peak_memory_bytes), run.actions};
  }

 private:
  const Chain& chain_;
  const Program compute_;
  const std::vector<double> speeds_;
  const MemoryLimit limit_;
  const std::unique_ptr<const SplitSpace> splits_;
};

std::unique_ptr<ShapeSpace> open(const Chain& chain, const Shape& shape) {
  try {
    return std::make_unique<ShapeSpace>(chain, shape);
  } catch (const InputError&) {
    return nullptr;  // a shape that this schedule does not run
  }
}

struct Tried {
  std::vector<Key> all;
  std::optional<Key> best(int64_t limit) const {
    std::optional<Key> best;
    for (const Key& one : all) {
      if (std::get<1>(one) <= limit && (!best || one < *best)) best = one;
    }
    return best;
  }
};

Tried try_shapes(const Chain& chain, const std::vector<Shape>& shapes) {
  Tried tried;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto space = open(chain, shapes[i]);
    if (!space) continue;
    for (const std::vector<int>& begins : all_splits(chain.costs.units(), space->splits().stages()))
      tried.all.push_back(key(i, begins, space->simulate(begins, {})));
  }
  return tried;
}

/// Guesses, which decide where it looks first, are anything.
SearchResult search(const Chain& chain, const std::vector<Shape>& shapes, int64_t limit,
                    std::mt19937_64& random) {
  const LayoutBound bound(split_costs(chain, true));
  std::vector<SearchSpace> spaces;
  spaces.reserve(shapes.size());
  for (const Shape& shape : shapes) {
    spaces.push_back({.bound_s = bound.step_s(RankSpeeds(shape.speeds), shape.microbatches),
                      .guess_s = static_cast<double>(random() % 100),
                      .memory_limit = limit,
                      .open = [&] { return open(chain, shape); }});
  }
  return search_in_blocks(spaces, {});
}

/// The same shapes with the devices of a cluster of two kinds in every order.
std::vector<Shape> arranged(const std::vector<Shape>& shapes, std::mt19937_64& random) {
  const double slow = 0.2 + 0.1 * static_cast<double>(random() % 8);
  const auto reserved_bytes = static_cast<int64_t>(random() % 40'000);
  std::vector<std::pair<double, int64_t>> devices(3);
  for (auto& device : devices)
    device = random() % 2 == 0 ? std::pair(1.0, int64_t{0}) : std::pair(slow, reserved_bytes);
  std::vector<Shape> result;
  for (Shape shape : shapes) {
    std::set<std::vector<double>> seen;
    const auto ranks = static_cast<size_t>(shape.ranks);
    std::ranges::sort(devices);
    do {
      shape.speeds.clear();
      shape.reserved_bytes.clear();
      for (size_t rank = 0; rank < ranks; ++rank) {
        shape.speeds.push_back(devices[rank].first);
        shape.reserved_bytes.push_back(devices[rank].second);
      }
      if (seen.insert(shape.speeds).second) result.push_back(shape);
    } while (std::ranges::next_permutation(devices).found);
  }
  return result;
}

void expect_what_trying_all_finds(uint64_t seeds, bool clusters) {
  std::mt19937_64 random(3);
  int64_t tried_splits = 0, simulated = 0;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    const Chain chain = small_chain(seed, seed % 7 == 0);
    std::vector<Shape> some = shapes(chain.costs.units(), 1 + static_cast<int>(seed / 3 % 8));
    if (clusters) some = arranged(some, random);
    std::ranges::shuffle(some, random);
    some.resize(std::min<size_t>(some.size(), 12));
    const Tried tried = try_shapes(chain, some);
    tried_splits += static_cast<int64_t>(tried.all.size());
    const int64_t limits[] = {
        INT64_MAX, tried.all.empty() ? 0 : std::get<1>(tried.all[random() % tried.all.size()])};
    for (const int64_t limit : limits) {
      const SearchResult found = search(chain, some, limit, random);
      ASSERT_TRUE(found.complete);
      const std::optional<Key> expected = tried.best(limit);
      ASSERT_EQ(found.best.has_value(), expected.has_value());
      if (!expected) continue;
      ASSERT_EQ(key(*found.best), *expected);
      if (limit != INT64_MAX) continue;
      for (const auto& [number, space] : found.spaces) simulated += space.simulated;
    }
  }
  ::testing::Test::RecordProperty("splits", std::to_string(tried_splits));
  EXPECT_LT(simulated, tried_splits);  // it leaves out what its bounds exclude
}

TEST(SearchOverAllShapes, FindsWhatTryingAllFindsWithAndWithoutMemory) {
  expect_what_trying_all_finds(1500, false);
}

TEST(SearchOverAllShapes, FindsWhatTryingAllFindsOnClustersOfTwoKinds) {
  expect_what_trying_all_finds(750, true);
}

}  // namespace
}  // namespace penstock::test
