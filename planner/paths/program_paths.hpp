// The longest paths of a program: which actions and transfers they pass, and how often.
//
// Valid for the simulator for the reasons that chain_bound.hpp gives: actions of a rank follow one
// another, F and backwards follow the transfers from their neighbours, and the OPT of every rank
// follows all of it. Where a RECV is posted when its rank comes to it the transfer follows what the
// rank did before, too.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pipeline/program/program.hpp"
#include "planner/paths/shared_units.hpp"
#include "planner/paths/split_memory.hpp"
#include "planner/paths/split_recompute.hpp"
#include "planner/paths/split_times.hpp"
#include "planner/paths/walk.hpp"

namespace penstock {

/// A path through a longer program takes too long to follow.
inline constexpr int64_t most_actions_followed = 100'000;

class ProgramPaths {
 public:
  /// `memory` and `expected` are null where whatever ranks hold fits.
  struct Recompute {
    std::shared_ptr<const SplitMemory> memory;
    std::shared_ptr<const SplitRecompute> expected;
    std::shared_ptr<const SharedUnits> shared;  // or null
  };
  /// Compute actions of stages that every microbatch passes in order. `posts_when_reached`: as
  /// posts_when_reached(Link) says.
  ProgramPaths(const Program& compute, SplitTimes times, bool posts_when_reached = false,
               Recompute recompute = {});
  ProgramPaths(const ProgramPaths&) = delete;

  const SplitTimes& times() const { return times_; }
  /// Null: whatever ranks hold fits.
  const SplitMemory* memory() const { return recompute_.memory.get(); }
  /// The choices that units have; null: whatever ranks hold fits.
  const SplitRecompute* recompute() const { return recompute_.expected.get(); }
  /// Null where nothing is known of whole units.
  const SharedUnits* shared() const { return recompute_.shared.get(); }
  int ranks() const { return static_cast<int>(last_.size()); }
  int actions() const { return static_cast<int>(nodes_.size()); }
  /// Seconds of the longest path, of any times or of a split's with the least that its ranks
  /// recompute. No split is simulated to be faster.
  double longest_s(const Times& times) const;
  double split_s(const std::vector<int>& begins) const;
  /// split_s() with what ranks are expected to recompute: infinite where they do not fit. No bound.
  double expected_s(const std::vector<int>& begins) const;
  /// For each rank the longest path that ends with its last action, as weights of times, followed
  /// by the longest OPT; longest first.
  struct Path {
    double seconds = 0;
    Times weights;
    std::vector<int> nodes;  // in order
  };
  /// So much of a path in a mixture.
  struct Share {
    std::shared_ptr<const Path> path;
    double share;
  };
  std::vector<Path> longest(const Times& times) const;
  Path longest_path(const Times& times) const;

  struct Follows {
    int node = -1;
    int transfer = -1;  // its number among the times, or -1: at once
  };
  struct Node {
    std::span<const int> times;  // what it takes, by their numbers
    std::span<const Follows> follows;
  };
  /// Each after those that it follows.
  const std::vector<Node>& nodes() const { return nodes_; }
  /// Is it the last of its rank?
  bool is_last(int node) const { return std::ranges::find(last_, node) != last_.end(); }

 private:
  class Builder;

  std::vector<double> ends(const Times& times) const;
  Path path_to(int last, const Times& times, const std::vector<double>& ends) const;
  std::optional<Times> expected(const std::vector<int>& begins) const;
  double least_s(const Path& path, const Times& kept, const std::vector<int>& begins) const;
  std::pair<int, double> optimizer(const Times& times) const;  // of the rank with the longest

  const SplitTimes times_;
  const Recompute recompute_;
  // The nodes' lists, one behind the other in memory, for paths are followed thousands of times.
  std::vector<int> times_of_nodes_;
  std::vector<Follows> follows_;
  std::vector<Node> nodes_;
  std::vector<int> last_;  // of each rank
};

/// By the longest path, with what ranks are expected to recompute. `paths` outlives it.
Walk::Judge judged_by(const ProgramPaths& paths);

}  // namespace penstock
