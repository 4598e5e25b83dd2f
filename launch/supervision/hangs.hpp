// Finds the rank that a run hangs at: a pure function of what the ranks do, as looks at them tell.
//
// A rank that waits for another is no culprit; the one that acts, and waits for nobody, is, once
// its action takes far longer than it ever did. Where all ranks wait, a message is lost, or they
// wait in a circle. Outside of steps (loading, validation, checkpoints, a script's own work) there
// is no deadline.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/progress.hpp"
#include "pipeline/program/program.hpp"

namespace penstock {

struct RankView {
  SharedProgress::Place place;
  Activity activity;
  bool operator==(const RankView&) const = default;
};

/// An action that has run before has `factor` times its longest run so far, but at least `least_s`;
/// in a rank's first step `first_s`.
struct Deadlines {
  double least_s = 10, factor = 20, first_s = 600;
  /// Between looks; an action that takes no longer keeps the least deadline.
  double interval_s() const { return least_s / factor / 2; }
};
/// With that least deadline, and the first step's in proportion.
Deadlines deadlines_from(double least_s);

struct Hang {
  int rank = -1;     // -1: all ranks wait
  double for_s = 0;  // that it has lasted
};

/// Time counts as the looks come: of a longer pause between two of them, as when this process was
/// stopped itself, only a look's interval.
class HangWatch {
 public:
  HangWatch(size_t ranks, const Deadlines& deadlines) : deadlines_(deadlines), ranks_(ranks) {}

  double interval_s() const { return deadlines_.interval_s(); }

  /// `now_s`: of a clock that never goes back. One view for each rank; nothing where a rank is not
  /// seen or has ended. That all ranks wait is only told where all are seen.
  std::optional<Hang> look(double now_s, const std::vector<std::optional<RankView>>& ranks);
  /// The ranks begin anew; how long their actions took remains known.
  void restart();

 private:
  struct Rank {
    std::optional<RankView> seen;
    double for_s = 0;                 // that it is seen so
    bool whole_step = false;          // it has made one
    std::map<int, double> longest_s;  // by position
  };
  void see(Rank& rank, const std::optional<RankView>& now, double passed_s);
  double limit_s(const Rank& rank) const;
  double limit_s(double longest_s) const;
  std::optional<Hang> standstill(double passed_s, bool changed);

  Deadlines deadlines_;
  std::vector<Rank> ranks_;
  std::optional<double> looked_s_;
  double standstill_s_ = 0, longest_standstill_s_ = 0;
};

/// A message that its sender has sent, and the receiver waits for.
struct LostMessage {
  int from = 0, to = 0;  // ranks
};
/// Among waiting ranks of a program, which replicas share, and the `parts` ranks of tensor groups.
std::optional<LostMessage> lost_message(const Program& program, const std::vector<RankView>& ranks,
                                        int parts = 1);

}  // namespace penstock
