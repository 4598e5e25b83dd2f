// Which ranks run a stage of a timeline, and which of them exchange messages.
#pragma once

#include <map>
#include <vector>

#include "pipeline/program/timeline.hpp"

namespace penstock {

/// A stage has a rank for each part of each replica. In the order of their numbers the n-th ranks
/// of all stages belong together: they exchange messages.
class StageRanks {
 public:
  explicit StageRanks(const Timeline& timeline);

  /// Which of its stage's ranks it is, from 0; -1 where it has no event of that stage.
  int number(int stage, int rank) const;
  /// The stage's rank of that number, or -1.
  int rank(int stage, int number) const;
  /// The first rank of each stage, by number of the stage; -1 of those without events.
  std::vector<int> first_ranks() const;

 private:
  std::map<int, std::vector<int>> ranks_;  // ascending
};

}  // namespace penstock
