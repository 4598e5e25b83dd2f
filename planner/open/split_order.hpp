// How splits compare, those of one space with those of others, and which of them count at all.
#pragma once

#include <cstdint>
#include <limits>
#include <tuple>

namespace penstock {

/// Bounds and simulations add the same numbers in another order: a few thousand additions, each off
/// by 2^-53 relative. This much less of a bound is safe.
constexpr double bound_rounding = 1e-12;

/// A search that has taken an eighth of its effort ends where nothing left can be faster by more
/// than this share of the best step: best splits often come in thousands that differ by less.
inline constexpr double near_enough = 1e-4;

enum class SearchObjective { step, memory };

/// The numbers that come first in a key: complexity of the space, step in nanoseconds and peak
/// memory, or the last two the other way round where memory is the objective.
using SplitRank = std::tuple<int64_t, int64_t, int64_t>;

struct SplitOrder {
  SearchObjective objective = SearchObjective::step;
  int64_t complexity = 0;
  double weight = 1;                                       // steps compare as weight x seconds
  int64_t max_bytes = INT64_MAX;                           // of the fullest rank
  double max_s = std::numeric_limits<double>::infinity();  // of weight x seconds

  SplitRank rank(double step_s, int64_t peak_bytes) const;
  bool admits(double step_s, int64_t peak_bytes) const {
    return peak_bytes <= max_bytes && weight * step_s <= max_s;
  }
  /// The rank of a split bounded by so many seconds and bytes: never more than its own.
  SplitRank bound(double bound_s, int64_t min_bytes) const {
    return rank(bound_s * (1 - bound_rounding), min_bytes);
  }
  /// No step that takes longer counts beside `incumbent`, which may be null, where the step is the
  /// objective.
  double most_s(const SplitRank* incumbent) const;
  /// Perhaps a split that is bounded by them.
  bool may_admit(double bound_s, int64_t min_bytes) const {
    return admits(bound_s * (1 - bound_rounding), min_bytes);
  }
};

}  // namespace penstock
