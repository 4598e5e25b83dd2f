// Some stages of a chain as the others see them: the lengths of the longest paths through their
// part of a program, between the edges that enter and leave it. A path goes from the program's
// start to a first exit, from entries to exits, and from a last entry to the end.
//
// Parts of the same stages and units differ for the other stages by these lengths alone: where one
// is nowhere longer, no split is faster for having the other.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/paths/program_paths.hpp"

namespace penstock {

/// Stages [from, to).
struct StageRange {
  int from = 0, to = 0;
  bool holds(int stage) const { return stage >= from && stage < to; }
};

/// Lengths in seconds; minus infinity where there is no path.
struct ChainPart {
  std::vector<double> exits;    // from the start of the program to the end of a node
  std::vector<double> entries;  // from the start of a node to the end of the program
  std::vector<double> through;  // from the start of an entry to the end of an exit
  double inside_s;              // from start to end
  std::vector<double> updates;  // by rank: its OPT
};

/// A program whose actions are of one stage each. It outlives all that is made of it.
class StagedPaths {
 public:
  explicit StagedPaths(const ProgramPaths& paths);
  /// Are its actions of one stage each?
  static bool apply_to(const ProgramPaths& paths);

  const ProgramPaths& program() const { return program_; }
  int stage(int node) const { return stages_[static_cast<size_t>(node)]; }
  /// Edges of the program between stages before a cut and those behind it, at most.
  int most_crossing() const;

 private:
  const ProgramPaths& program_;
  std::vector<int> stages_;  // by node
};

/// The entries and exits of a part.
class PartBorder {
 public:
  PartBorder(const StagedPaths& paths, StageRange stages);

  /// The part without stages.
  ChainPart none() const;
  /// A part with all lengths 0.
  ChainPart nothing() const;
  /// The length from an entry to an exit, of which -1 is the start or end of the program.
  double& of(ChainPart& part, int entry, int exit) const;
  /// Is no split longer by more than that for having `a` in place of `b`?
  bool no_longer(const ChainPart& a, const ChainPart& b, double more_s) const;
  int64_t lengths() const {
    return static_cast<int64_t>(exits_.size() + entries_.size() + through_.size()) + ranks_ + 1;
  }

 private:
  friend class PartMeeting;

  const int ranks_;
  const StageRange stages_;
  std::vector<int> exits_, entries_;          // nodes, in the order of the program
  std::vector<std::pair<int, int>> through_;  // numbers of an entry and an exit behind it
  bool others_start_ = false, others_end_ = false;
};

/// Parts that meet, or a part and all nodes of a stage: what paths pass of them, in the order of
/// the program.
class PartMeeting {
 public:
  using Borders = std::vector<const PartBorder*>;
  using Parts = std::vector<const ChainPart*>;
  /// `nodes`: a stage, or none at the cut where the parts meet. `all`: of what they are together.
  PartMeeting(const StagedPaths& paths, Borders parts, StageRange nodes, const PartBorder& all);

  /// Its times where the stage has units [begin, end), or the cut is before both.
  std::vector<double> seconds(const SplitTimes& times, int begin, int end) const;
  /// The parts as one, with the sum of their OPT.
  ChainPart joined(const Parts& parts, const std::vector<double>& seconds) const;
  /// Steps of joining parts.
  int64_t steps() const;

 private:
  struct Edge {
    int from, time;  // a place; a number among the seconds, or -1
  };
  struct Place {
    enum class Kind { entry, node, exit } kind;
    int node, part, number;             // the latter of an entry or exit
    bool starts = false, ends = false;  // with the program
    std::vector<int> times = {};
    std::vector<Edge> edges = {};  // of an exit: from entries, with numbers among what is through
  };
  static constexpr int from_start = -1;

  void add_places(const StagedPaths& paths);
  void connect(const StagedPaths& paths, Place& place);
  void connect_exit(Place& place) const;
  int time(int of);
  int find(int node, bool entry) const;
  double follow(const Parts& parts, const std::vector<double>& seconds, int from,
                std::vector<double>& lengths) const;

  const Borders borders_;
  const StageRange nodes_;
  const PartBorder& all_;
  std::vector<Place> places_;
  std::vector<int> exits_, entries_;  // places of those of all
  std::vector<int> times_;            // numbers among those of a split
};

}  // namespace penstock
