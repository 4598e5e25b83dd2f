// Models whose units are no chain: what may be the first part of a pipeline, and its stages.
//
//     embed -> a1 -> a2 -> join      after embed: a1 or b1, with or without what follows them
//         `--> b1 -> b2 --^
//
// A first part is a downset of the graph of units (downsets.hpp), a stage the difference of two of
// which one contains the other. Splits of the chain are those along one order of the units.
#pragma once

#include <optional>
#include <vector>

#include "planner/bounds/work_sums.hpp"
#include "planner/model/downsets.hpp"
#include "planner/model/model_chain.hpp"

namespace penstock {

class Branches {
 public:
  /// Takes branch_units. Without branches (any() is false) where no two units that do not depend on
  /// one another each take 1/64 of a forward and backward of the profile's largest microbatch, or
  /// where there are more downsets than `limit`. The model must stay.
  Branches(const Graph& model, const Analysis& analysis, const Profile& profile,
           size_t limit = 512);

  bool any() const { return downsets_.has_value(); }
  /// The units, which are no chain.
  const ModelChain& units() const { return units_; }

  struct Edge {
    int from, to;   // units
    bool gradient;  // comes back
  };
  const std::vector<Edge>& edges() const { return edges_; }
  const Downsets& downsets() const { return *downsets_; }
  /// How each downset but the empty one grows from another.
  const std::vector<WorkSums::Grown>& grown() const { return grown_; }
  /// Downsets that contain `begin` and at least one unit more, and leave out at least so many.
  std::vector<int> above(int begin, int units_left) const;
  /// Number of splits into so many stages; the largest int64_t where there are more.
  int64_t splits(int stages) const;
  /// The stage of each unit, where stage s begins with downset begins[s].
  std::vector<int> stage_of_unit(const std::vector<int>& begins) const;

 private:
  ModelChain units_;
  std::vector<Edge> edges_;
  std::optional<Downsets> downsets_;
  std::vector<WorkSums::Grown> grown_;
  std::vector<int> size_;                // units of each downset
  std::vector<std::vector<int>> above_;  // ascending
};

}  // namespace penstock
