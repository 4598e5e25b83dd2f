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

/// Exact: a multiple-choice knapsack, solved by keeping, item by item, the choices of which no
/// other is both smaller and faster. `items[i]` must not be empty.
Choice cheapest(const std::vector<std::vector<Variant>>& items, double capacity_bytes);

}  // namespace penstock::bench
