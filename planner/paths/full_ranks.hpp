// Splits in which many ranks have as many units as they can.
//
// Where ranks can have n units each in a certain time, and all of them together few more than there
// are, many have to have n. Two of them may take longer than either alone: a path passes what the
// one does up to some action, then the stages between them, then what the other does. The time is
// not enough where, in the graph of ranks whose edges are the pairs for which it is, no clique has
// so many.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/paths/program_paths.hpp"
#include "planner/paths/shared_units.hpp"
#include "planner/paths/split_box.hpp"

namespace penstock {

class FullRanks {
 public:
  /// `paths` knows whole units, and outlives it.
  explicit FullRanks(const ProgramPaths& paths);

  /// Is no split of the box faster than so many seconds? False: that is not known.
  bool none_is_faster(SplitBox box, double seconds);
  /// Paths that were followed.
  int64_t followed() const { return followed_; }

 private:
  using Way = DealtHull::Way;
  struct Full {
    std::vector<int> stages;
    std::vector<Way> ways;
  };
  /// A rank's units, dealt out.
  struct Dealt {
    const std::vector<int>& stages;
    const Way& way;
  };
  struct Path {
    Times weights;
    std::vector<double> longer;  // by stage, for each second that its backwards are
    double around_s;             // in stages of others
  };
  bool note_full(const SplitBox& box, SharedUnits::Ways ways);
  bool fast_enough(const Full& one, const Full& other, double seconds);
  bool fast_enough(const Dealt& one, const Dealt& other, double seconds, std::vector<Path>& known);
  Path follow(const Dealt& one, const Dealt& other, const Dealt* all_of);
  double own_s(const Path& path, const Dealt& dealt) const;
  bool has_clique(const std::vector<std::vector<char>>& edges, std::vector<size_t> ranks,
                  size_t count);

  const ProgramPaths& paths_;
  const SplitTimes& times_;
  std::vector<Times> of_units_;  // the least of stages of so many units
  std::vector<Full> full_;
  Times least_;
  int64_t followed_ = 0, tried_ = 0;
};

}  // namespace penstock
