// Boxes of splits: bounds on where stages begin, and on how many units stages and ranks have.
#pragma once

#include <utility>
#include <vector>

namespace penstock {

/// Whole numbers, each between two bounds.
struct Ranges {
  std::vector<int> low, high;

  bool empty() const;
  bool single() const { return low == high; }
};

struct SplitBox {
  Ranges begins;         // by stage
  Ranges stages, ranks;  // units of each
};

/// Narrows the bounds by one another, as far as whole numbers let them, and loses no split.
/// `rank_of_stage` says whose stages are whose, of a chain of so many units. False: the box holds
/// no split. True: its lowest begins keep the bounds of all stages, and so do its highest.
bool tighten(SplitBox& box, const std::vector<int>& rank_of_stage, int units);

/// One number of a box, which splits either have at most so high, or higher.
struct Division {
  enum class Of { ranks, stages, begins } of = Of::begins;
  int number = 0;  // of the rank or stage
  int last = 0;    // the highest of the first part
};

/// Do both parts have numbers of the box?
bool divides(const Division& division, const SplitBox& box);
/// Not tight.
std::pair<SplitBox, SplitBox> divided(const SplitBox& box, const Division& division);

}  // namespace penstock
