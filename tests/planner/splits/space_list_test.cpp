// Spaces listed block by block are looked into as if all had been listed at once.
#include "planner/splits/space_list.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/planner/splits/in_blocks.hpp"

namespace penstock::test {
namespace {

std::vector<SearchSpace> random_spaces(std::mt19937_64& random) {
  std::vector<SearchSpace> spaces(1 + random() % 60);
  const auto below = [&](uint64_t end) { return static_cast<double>(random() % end); };
  for (SearchSpace& space : spaces)
    space = {.bound_s = below(10),
             .guess_s = below(10),
             .group = random() % 3,
             .bytes = static_cast<int64_t>(random() % 12),
             .memory_limit = 9,
             .complexity = static_cast<int64_t>(random() % 2),
             .weight = 1 + below(2)};
  return spaces;
}

/// All that it offers, round by round, until everything is dead.
std::vector<std::vector<size_t>> rounds(SpaceList& list, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::set<size_t> done;
  SplitRank worst{2, 0, 0};
  const SpaceList::Dead dead = [&](const SpaceList::Top& top) {
    return top.first > worst || done.contains(top.second);
  };
  std::vector<std::vector<size_t>> all;
  while (true) {
    std::vector<size_t>& round = all.emplace_back(list.promising(dead));
    for (const auto& [rank, number] : list.best(dead)) round.push_back(number);
    if (round.empty()) return all;
    const size_t space = round[random() % round.size()];
    done.insert(space);
    list.took(list[space].group, 0.5 + 0.1 * static_cast<double>(random() % 10));
    if (random() % 4 == 0) worst = std::min(worst, SplitRank{random() % 2, 8'000'000'000, 0});
  }
}

TEST(SpaceList, OffersTheSameInBlocks) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const std::vector<SearchSpace> spaces = random_spaces(random);
    const SplitSearch how;
    const std::vector<SpaceBlock> together{space_block([&] { return spaces; }, how)};
    const std::vector<SpaceBlock> apart = in_blocks(spaces, how);
    SpaceList one(together, how), many(apart, how);
    ASSERT_EQ(rounds(many, seed), rounds(one, seed));
  }
}

TEST(SpaceList, ListsTheBlocksThatItComesTo) {
  const SplitSearch how;
  std::set<int> listed;
  std::vector<SpaceBlock> blocks;
  for (int block = 0; block < 100; ++block) {
    const auto list = [&listed, block] {
      listed.insert(block);
      return std::vector<SearchSpace>(10, {.bound_s = 1.0 + block, .guess_s = 2.0 + block});
    };
    blocks.push_back(space_block(list, how));
  }
  listed.clear();
  SpaceList list(blocks, how);
  const SpaceList::Dead none = [](const SpaceList::Top&) { return false; };
  EXPECT_EQ(list.best(none).size(), round_width);
  EXPECT_EQ(list.promising(none).front(), 0U);
  EXPECT_EQ(listed, std::set<int>{0});
}

TEST(SpaceList, GroupsInWhichMuchWasTriedInVainWait) {
  const SplitSearch how{.effort = 1600};
  const std::vector<SearchSpace> spaces{{.guess_s = 2, .group = 0}, {.guess_s = 3, .group = 1}};
  const std::vector<SpaceBlock> blocks{space_block([&] { return spaces; }, how)};
  const SpaceList::Dead none = [](const SpaceList::Top&) { return false; };
  SpaceList list(blocks, how);
  list.did_not_fit(0, 10);
  list.did_not_fit(1, 10);
  EXPECT_EQ(list.promising(none).front(), 0U);
  list.did_not_fit(0, 100);
  EXPECT_EQ(list.promising(none).front(), 1U);
}

}  // namespace
}  // namespace penstock::test
