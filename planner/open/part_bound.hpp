// A bound of the splits whose first stages are a part (chain_part.hpp), from a mixture of paths: in
// the part they are as long as it says, and behind it as long as for the stages for which the
// mixture is least, by a dynamic programme over where these begin.
#pragma once

#include <vector>

#include "planner/open/chain_part.hpp"
#include "planner/paths/split_box.hpp"

namespace penstock {

class PartBound {
 public:
  /// Stages keep to the box. `borders`: of the first stages, by the cut behind them.
  PartBound(const StagedPaths& paths, const std::vector<ProgramPaths::Share>& mixture,
            const SplitBox& box, const std::vector<PartBorder>& borders);

  /// The part has the stages before that cut; the next one begins with `unit`. Infinite where no
  /// stages behind keep to the box.
  double least_s(const ChainPart& part, int cut, int unit) const;

 private:
  void follow(const StagedPaths& paths, const ProgramPaths::Share& of, int cut,
              const PartBorder& border);
  void add_behind(const SplitTimes& times, const Times& weights, const SplitBox& box);

  std::vector<ChainPart> shares_;            // by the cut: how much of each length is passed
  std::vector<std::vector<double>> behind_;  // by the cut and the unit
};

}  // namespace penstock
