// Random units on two ranks of two stages each, which recompute where they do not fit, and the
// least that splits of them recompute, over all choices.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "planner/paths/split_box.hpp"
#include "planner/paths/whole_recompute.hpp"

namespace penstock::test {

constexpr double misfit_s = std::numeric_limits<double>::infinity();

inline const Placement four_stages{
    .ranks = 2, .microbatches = 4, .rank_of_stage = {0, 1, 0, 1}, .held = {}};

/// Units on two ranks of two stages each, each of which may recompute what it saves.
struct Units {
  std::vector<int64_t> own, saved;
  std::vector<double> seconds;
  std::vector<HeldAtOnce> moments;
  std::vector<int64_t> limits;

  int count() const { return static_cast<int>(own.size()); }

  WholeRecompute whole() const {
    auto bytes = std::make_shared<StageTable>(count());
    for (int begin = 0; begin < count(); ++begin)
      for (int end = begin + 1; end <= count(); ++end)
        for (auto unit = static_cast<size_t>(begin); unit < static_cast<size_t>(end); ++unit) {
          bytes->at(begin, end).always += own[unit];
          bytes->at(begin, end).per_microbatch += saved[unit];
        }
    std::vector<LayerChoices> choices;
    for (size_t unit = 0; unit < own.size(); ++unit)
      choices.push_back({{seconds[unit], saved[unit]}});
    return {bytes, choices, {}, four_stages, RankSpeeds({1, 1}), moments, limits};
  }

  /// Seconds that the two stages of a rank may recompute, none of them more than others in both.
  std::vector<std::pair<double, double>> least_of_stages(const std::vector<int>& begins,
                                                         int rank) const {
    std::vector<std::pair<size_t, size_t>> mine;  // unit and stage
    for (size_t stage = static_cast<size_t>(rank); stage < 4; stage += 2) {
      const int end = stage < 3 ? begins[stage + 1] : count();
      for (int unit = begins[stage]; unit < end; ++unit)
        mine.emplace_back(static_cast<size_t>(unit), stage);
    }
    std::vector<std::pair<double, double>> all, least;
    for (unsigned set = 0; set < 1U << mine.size(); ++set) {
      std::pair<double, double> again{0, 0};
      for (size_t i = 0; i < mine.size(); ++i)
        if (set >> i & 1)
          (mine[i].second < 2 ? again.first : again.second) += seconds[mine[i].first];
      if (fits(mine, set, rank)) all.push_back(again);
    }
    std::ranges::sort(all);
    for (const auto& again : all)
      if (least.empty() || again.second < least.back().second) least.push_back(again);
    return least;
  }

  /// The least over all sets of units of a rank that recompute; infinite where nothing fits.
  double least_s(const std::vector<int>& begins, int rank) const {
    double least_s = misfit_s;
    for (const auto& [first_s, second_s] : least_of_stages(begins, rank))
      least_s = std::min(least_s, first_s + second_s);
    return least_s;
  }

  bool fits(const std::vector<std::pair<size_t, size_t>>& mine, unsigned set, int rank) const {
    return std::ranges::all_of(moments, [&](const HeldAtOnce& moment) {
      int64_t bytes = 0;
      for (size_t i = 0; i < mine.size(); ++i) {
        const auto& [unit, stage] = mine[i];
        bytes += own[unit] + ((set >> i & 1) ? 0 : moment.held[stage] * saved[unit]);
      }
      return moment.rank != rank || bytes <= limits[static_cast<size_t>(rank)];
    });
  }
};

inline Units random_units(std::mt19937& random, bool alike) {
  Units units;
  const auto draw = [&](int most) { return static_cast<int64_t>(1 + random() % most); };
  for (int64_t unit = 5 + draw(3); unit > 0; --unit) {
    const bool as_before = alike && !units.own.empty();
    units.own.push_back(as_before ? units.own.back() : draw(10));
    units.saved.push_back(as_before ? units.saved.back() : draw(10));
    units.seconds.push_back(as_before ? units.seconds.back() : static_cast<double>(draw(5)));
  }
  for (int rank = 0; rank < 2; ++rank) {
    for (int moment = alike ? 1 : 0; moment < 2; ++moment) {
      HeldAtOnce held{rank, std::vector<int>(4, 0), std::vector<int>(4, 0), std::vector<int>(4, 0)};
      for (size_t stage = static_cast<size_t>(rank); stage < 4; stage += 2)
        held.held[stage] = static_cast<int>(draw(4));
      units.moments.push_back(std::move(held));
    }
    units.limits.push_back(20 + draw(50));
  }
  return units;
}

/// Every second time all are alike.
inline void for_each_units(
    const std::function<void(uint32_t seed, const Units&, std::mt19937&)>& check) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const Units units = random_units(random, seed % 2 == 0);
    check(seed, units, random);
  }
}

inline SplitBox whole_box(int units) {
  SplitBox box{{{0, 1, 2, 3}, {0, units - 3, units - 2, units - 1}},
               {{1, 1, 1, 1}, {units, units, units, units}},
               {{2, 2}, {units, units}}};
  EXPECT_TRUE(tighten(box, {0, 1, 0, 1}, units));
  return box;
}

/// Units of the two stages of a rank.
inline std::vector<int> dealt(const std::vector<int>& begins, int rank, int units) {
  const auto end = [&](size_t stage) { return stage < 3 ? begins[stage + 1] : units; };
  const auto first = static_cast<size_t>(rank);
  return {end(first) - begins[first], end(first + 2) - begins[first + 2]};
}

/// They differ in nothing; both ranks hold one microbatch of each stage at once.
inline Units units_alike(size_t count, int64_t limit) {
  return {.own = std::vector<int64_t>(count, 10),
          .saved = std::vector<int64_t>(count, 8),
          .seconds = std::vector<double>(count, 1.0),
          .moments = {{0, {1, 0, 1, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}},
                      {1, {0, 1, 0, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}}},
          .limits = {limit, limit}};
}

}  // namespace penstock::test
