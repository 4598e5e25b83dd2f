// Exact search over many spaces of splits at once: best lower bound first, simulated until the next
// bound is no better than the best found. Deterministic, for any number of threads: a round takes a
// fixed number of spaces, what its threads find is looked at in the order of the spaces, and equal
// steps are decided by key, never by order of arrival.
//
// Steps are compared in whole nanoseconds, far below what a measurement can tell, so that plans
// whose sums differ in rounding alone are ties. A key is (complexity of the space,
// step, peak memory, space, split), each the less the better; peak memory comes before the step
// where memory is the objective.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "planner/paths/program_paths.hpp"
#include "planner/splits/frontier.hpp"
#include "planner/splits/split_space.hpp"

namespace penstock {

/// The simulation of a split, in brief.
struct SplitOutcome {
  double step_s = 0;
  int64_t peak_bytes = 0;  // of the fullest rank; of heterogeneous ones MemoryLimit::fullest
  int64_t effort = 0;      // of the simulation, in actions
  double slack_s = 0;      // the step may be shorter by so much with other recompute, …
  bool more = false;       // … and more effort may tell
  /// The choice of each unit of what it recomputes, or -1; empty: what takes its rank least time.
  std::vector<int> choices = {};
};

/// A space that the search has come to. Used by one thread at a time.
class OpenSpace {
 public:
  virtual ~OpenSpace() = default;
  virtual const SplitSpace& splits() const = 0;
  struct Aim {
    /// A split that takes more need not be made as fast as it can be.
    double most_s = std::numeric_limits<double>::infinity();
    int64_t effort = 0;  // of looking for the best recompute, about
    /// As SplitOutcome has them, where they are known to be good; else they are looked for.
    std::vector<int> choices = {};
    std::function<bool()> stop = {};  // whether to leave off looking for it; may be empty
  };
  virtual SplitOutcome simulate(const std::vector<int>& begins, const Aim& aim) = 0;
  /// May ranks that have to recompute do so in one stage or another?
  virtual bool places_recompute() const { return false; }
  /// Frees what it can make again: it is not the turn of this space for a while.
  virtual void rest() {}
  /// Splits to begin with where there are too many to find a good one by bounds: number 0, 1, …,
  /// until one fits; empty: no more.
  virtual std::vector<int> proposal(int) const { return {}; }
  /// The paths of its program, for splits much like this one; null where they say too little.
  virtual std::shared_ptr<const ProgramPaths> paths(const std::vector<int>& /*begins*/) const {
    return nullptr;
  }
  /// Do the bounds of splits much like this one say enough to walk by, where it has no paths?
  virtual bool bounds_lead(const std::vector<int>& /*begins*/) const { return false; }
};

/// A limit that leaves out a space.
inline constexpr int64_t nothing_fits = -1;

/// Spaces are listed in the order that decides ties.
struct SearchSpace {
  double bound_s = 0;  // no split of it is faster
  /// Seconds that its best may take: the promising are looked into early. Guesses of a group are
  /// corrected by what its spaces turned out to take.
  double guess_s = 0;
  size_t group = 0;
  int64_t bytes = 0;                 // or has a fullest rank with less
  int64_t memory_limit = INT64_MAX;  // of the fullest rank
  int64_t complexity = 0;            // of its splits
  double weight = 1;                 // steps of its splits compare as weight x seconds
  /// Null where there turns out to be nothing in it.
  std::function<std::unique_ptr<OpenSpace>()> open;
};

/// Spaces that follow one another, listed when the search comes to them.
struct SpaceBlock {
  using List = std::function<std::vector<SearchSpace>()>;

  size_t count = 0;
  /// Numbers no greater than those of any of its spaces that may hold a split; absent where none
  /// may. It is not opened.
  std::optional<SearchSpace> least;
  SplitRank rank;                      // no greater than that of any of these
  std::map<size_t, double> guesses_s;  // the least weighted ones, by group
  List list;                           // the same whenever it is called
};

struct FoundSplit {
  size_t space = 0;
  std::vector<int> begins;
  SplitOutcome outcome;
};

struct SearchState {
  int64_t simulated = 0;
  double bound_s = 0;  // no split that is still open is faster
  double best_s = 0;   // 0: nothing yet
  double effort = 0;   // share of the effort allowed
};

struct SplitSearch {
  SearchObjective objective = SearchObjective::step;
  /// Splits that take longer do not count, in weighted seconds.
  double max_s = std::numeric_limits<double>::infinity();
  /// Nodes looked at, splits bounded and actions simulated, added up, after which it stops, whether
  /// it has found anything or not.
  int64_t effort = INT64_MAX;
  /// Nodes kept at a time, of some hundred bytes each, after which it stops. From half of them on
  /// it keeps as few more as it can.
  int64_t nodes = 10'000'000;
  int threads = 1;
  std::function<void(const SearchState&)> progress;  // now and then; may be empty
  std::function<bool()> stop;  // whether to stop, asked on any thread; may be empty
};

/// How the splits of a space compare.
inline SplitOrder order_of(const SearchSpace& space, const SplitSearch& search) {
  return {search.objective, space.complexity, space.weight, space.memory_limit, search.max_s};
}

struct SearchResult {
  std::optional<FoundSplit> best;  // absent where nothing fits, or nothing was found that does
  bool complete = true;            // every split was simulated or cannot be better
  /// The same to within near_enough, but that other recompute may make some faster.
  bool all_seen = true;
  double open_bound_s = 0;  // where not: none of those left is faster
  bool stopped = false;     // by SplitSearch::stop
  struct Space {
    double bound_s = 0;  // of all its splits
    int64_t bytes = 0, splits = 0, simulated = 0;
    std::optional<FoundSplit> best;  // of those simulated that fit
  };
  std::map<size_t, Space> spaces;  // those that the search has come to
  /// No split is faster of those that it has not come to and that may be better than the best.
  double untouched_bound_s = std::numeric_limits<double>::infinity();
};

/// A block of the spaces that `list` lists, which is called once.
SpaceBlock space_block(SpaceBlock::List list, const SplitSearch& search);

/// The spaces are numbered in the order of the blocks. Throws std::logic_error if a split that fits
/// is simulated to be faster than its bound.
SearchResult search_splits(const std::vector<SpaceBlock>& blocks, const SplitSearch& search);

}  // namespace penstock
