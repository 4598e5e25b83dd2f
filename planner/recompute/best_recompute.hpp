// The recompute with which the step of a split is shortest: branch and bound over the choices with
// which each rank fits.
//
// Every rank has so many options, each of which makes the backwards of its stages longer by so
// much. For weights w of paths p that sum to 1,
//
//   step >= sum of w(p) length(p) + sum over ranks, the least over its options of
//           (sum of w(p) x what the option makes longer),
//
// whatever w is. The best weights are found with a mixture of options by a linear programme, to
// which paths that are longer are added until there are none. Options of a rank that are mixed are
// then divided by what they make one of its stages longer. Of a rank with too many options the
// programme asks for the one that costs least by its prices, and nothing is divided.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "planner/paths/program_paths.hpp"

namespace penstock {

struct BestRecompute {
  /// No choices with which ranks fit make the longest path shorter.
  double bound_s = 0;
  /// The choice of each unit, or -1, that were found to make it shortest, judged by what stages
  /// keep alone; empty: none that were looked at.
  std::vector<int> choices;
  double step_s = std::numeric_limits<double>::infinity();
  std::vector<double> prices;  // of a second of each stage's backward, in a mixture of options
  bool gave_up = false;        // for want of effort, or stopped
  int64_t effort = 0;
};

/// The split has ranks that may choose. Choices that take `below_s` or more need not be found; it
/// gives up after about so much effort, or when `stop` says so, which may be empty.
BestRecompute best_recompute(const ProgramPaths& paths, const std::vector<int>& begins,
                             double below_s, int64_t effort,
                             const std::function<bool()>& stop = {});

}  // namespace penstock
