// Guesses of what spaces of splits may take, by which the promising ones are looked into early.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/splits/least.hpp"
#include "planner/splits/split_order.hpp"

namespace penstock {

/// Spaces that a round of a search looks at. Fixed, whatever the number of threads.
constexpr size_t round_width = 8;

/// Guesses of a group are corrected by the mean of what its spaces turned out to take, over what
/// was guessed.
class Guesses {
 public:
  void add(size_t group, double guess_s, const SplitRank& top, size_t space) {
    guesses_[group].add({guess_s, top, space});
  }
  void took(size_t group, double ratio) {
    auto& [sum, count] = taken_[group];
    sum += ratio;
    ++count;
  }
  void did_not_fit(size_t group) { took(group, misfit_ratio); }

  /// Spaces to look into next: the least guess of each of some groups, those never tried first, and
  /// then the least guesses of all. `dead`: of a space's best split and the space, whether it is
  /// left out, now and later.
  template <typename Dead>
  std::vector<size_t> least(const Dead& dead) {
    std::map<size_t, Guess> best;  // by group
    std::vector<Guess> all;
    for (auto& [group, guesses] : guesses_) {
      const auto& first = guesses.first(round_width, [&](const Guess& guess) {
        return dead(std::get<SplitRank>(guess), std::get<size_t>(guess));
      });
      for (const auto& [guess_s, top, space] : first)
        all.emplace_back(guess_s * correction(group), top, space);
      if (!first.empty()) best.emplace(group, all[all.size() - first.size()]);
    }
    std::vector<Guess> order = of_groups(best);
    const size_t width = std::min(round_width, all.size());
    std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(width));
    order.insert(order.end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(width));
    std::vector<size_t> spaces;
    spaces.reserve(order.size());
    for (const Guess& guess : order) spaces.push_back(std::get<size_t>(guess));
    return spaces;
  }

 private:
  using Guess = std::tuple<double, SplitRank, size_t>;

  /// Groups in a round.
  static constexpr size_t round_of_groups = 4;
  /// A guess is taken to have been off by it where the split does not even fit.
  static constexpr double misfit_ratio = 2;

  std::vector<Guess> of_groups(const std::map<size_t, Guess>& best) const {
    std::vector<Guess> order;
    for (const bool tried : {false, true}) {
      const auto from = static_cast<std::ptrdiff_t>(order.size());
      for (const auto& [group, guess] : best) {
        if (taken_.contains(group) == tried) order.push_back(guess);
      }
      std::sort(order.begin() + from, order.end());
    }
    order.resize(std::min(order.size(), round_of_groups));
    return order;
  }

  /// 1 of a group not yet tried.
  double correction(size_t group) const {
    const auto seen = taken_.find(group);
    if (seen == taken_.end()) return 1;
    return seen->second.first / static_cast<double>(seen->second.second);
  }

  std::map<size_t, Least<Guess>> guesses_;              // by group
  std::map<size_t, std::pair<double, int64_t>> taken_;  // ratios and their number
};

}  // namespace penstock
