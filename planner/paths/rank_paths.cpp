#include "planner/paths/rank_paths.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace penstock {

std::vector<std::vector<Times>> own_paths(const SplitTimes& times, int microbatches) {
  const std::vector<int>& rank_of_stage = times.rank_of_stage();
  const auto ranks = static_cast<size_t>(1 + std::ranges::max(rank_of_stage));
  std::vector<std::vector<Times>> of_ranks(ranks, {Times(times.size(), 0.0)});
  for (int stage = 0; stage < times.stages(); ++stage) {
    Times& weights = of_ranks[static_cast<size_t>(rank_of_stage[static_cast<size_t>(stage)])][0];
    for (const SplitTime kind :
         {SplitTime::first_forward, SplitTime::first_input, SplitTime::optimizer})
      weights[times.at(kind, stage)] = 1;
    for (const SplitTime kind : {SplitTime::forward, SplitTime::input})
      weights[times.at(kind, stage)] = microbatches - 1;
    weights[times.at(SplitTime::weight, stage)] = microbatches;
  }
  return of_ranks;
}

std::vector<std::vector<Times>> rank_paths(const ProgramPaths& paths) {
  const SplitTimes& times = paths.times();
  const Times least = times.least(times.all());
  // More than a path without it can be longer by.
  double much_s = 1;
  for (const ProgramPaths::Node& node : paths.nodes())
    for (const int time : node.times) much_s += std::max(0.0, least[static_cast<size_t>(time)]);
  std::vector<std::vector<Times>> of_ranks(static_cast<size_t>(paths.ranks()));
  for (int rank = 0; rank < paths.ranks(); ++rank) {
    for (const bool weights : {true, false}) {
      Times longer = least;
      for (int stage = 0; stage < times.stages(); ++stage) {
        if (times.rank_of_stage()[static_cast<size_t>(stage)] != rank) continue;
        for (const SplitTime kind :
             {SplitTime::forward, SplitTime::first_forward, SplitTime::input,
              SplitTime::first_input, SplitTime::weight, SplitTime::optimizer})
          if (kind != SplitTime::weight || weights) longer[times.at(kind, stage)] += much_s;
      }
      Times path = paths.longest_path(longer).weights;
      auto& of = of_ranks[static_cast<size_t>(rank)];
      if (std::ranges::find(of, path) == of.end()) of.push_back(std::move(path));
    }
  }
  return of_ranks;
}

}  // namespace penstock
