// One variant for each of several items, so that all fit a capacity and take the least time.
#pragma once

#include <vector>

namespace penstock::bench {

struct Variant {
  double time_s = 0, bytes = 0;
};

struct Choice {
  double time_s = 0;          // infinite where no choice fits
  std::vector<int> variants;  // by item
};

/// The time of the best choice lies between these; infinite where none fits.
struct TimeRange {
  double least_s = 0;
  double most_s = 0;  // of a choice that fits
};

/// Far less work than `cheapest`. `items[i]` must not be empty.
TimeRange time_range(const std::vector<std::vector<Variant>>& items, double capacity_bytes);

/// Exact: a multiple-choice knapsack, solved by keeping, item by item, the choices that the
/// relaxation (relaxed.hpp) does not rule out and of which no other is both smaller and faster.
/// `items[i]` must not be empty.
Choice cheapest(const std::vector<std::vector<Variant>>& items, double capacity_bytes);

}  // namespace penstock::bench
