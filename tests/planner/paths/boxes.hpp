// Random boxes of splits, and which splits they hold.
#pragma once

#include <random>
#include <vector>

#include "planner/paths/split_times.hpp"

namespace penstock::test {

/// Bounds on where stages begin, and on units of stages and of ranks, which may hold nothing.
inline SplitBox random_box(const SplitBox& all, std::mt19937_64& random) {
  SplitBox box = all;
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (Ranges* of : {&box.begins, &box.stages, &box.ranks})
    for (size_t i = 0; i < of->low.size(); ++i) {
      if (random() % 4 == 0) of->low[i] = between(of->low[i], of->high[i]);
      if (random() % 4 == 0) of->high[i] = between(of->low[i], of->high[i]);
    }
  return box;
}

inline bool holds(const SplitBox& box, const SplitTimes& times, const std::vector<int>& begins) {
  std::vector<int> of_stages, of_ranks(box.ranks.low.size(), 0);
  for (size_t stage = 0; stage < begins.size(); ++stage) {
    const int end = stage + 1 < begins.size() ? begins[stage + 1] : times.units();
    of_stages.push_back(end - begins[stage]);
    of_ranks[static_cast<size_t>(times.rank_of_stage()[stage])] += of_stages.back();
  }
  const auto within = [](const Ranges& of, const std::vector<int>& numbers) {
    for (size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] < of.low[i] || numbers[i] > of.high[i]) return false;
    return true;
  };
  return within(box.begins, begins) && within(box.stages, of_stages) && within(box.ranks, of_ranks);
}

}  // namespace penstock::test
