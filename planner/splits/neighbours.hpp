// The splits next to one: a unit goes from a stage to another, and the stages between them move by
// one. The search climbs from split to split where there are too many to follow by bounds.
#pragma once

#include <optional>
#include <vector>

namespace penstock {

class Neighbours {
 public:
  /// The neighbours of a split of so many units into intervals.
  Neighbours(std::vector<int> begins, int units);

  /// Each neighbour once, those of stages that are next to each other first; then none.
  std::optional<std::vector<int>> next();
  /// The neighbour given last is the split whose neighbours follow, from where its own stood.
  void move();

 private:
  std::vector<int> shifted(size_t number) const;

  std::vector<int> begins_, last_;
  int units_;
  size_t moves_, at_ = 0, tried_ = 0;
};

}  // namespace penstock
