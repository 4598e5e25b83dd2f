// Decides about a run whose rank failed: a pure function of the failure, those before it, and the
// snapshots that the ranks have left.
//
// Each rank has slots in memory that outlives it. It copies its state after each step into one of
// them (rotation.hpp), while it computes the next one, whose update it makes only once all ranks
// have their copies. So whenever ranks are stopped, the newest complete snapshots of two of
// them are one step apart at most, and each has the older of these: the run goes on from there.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launch/progress.hpp"

namespace penstock {

/// The steps before which there is a snapshot of a rank's state.
using StepsHeld = std::set<int64_t>;
StepsHeld steps_held(const SlotSteps& slots);

/// The latest step that all ranks can go on with; nothing where there is none.
std::optional<int64_t> common_step(const std::vector<StepsHeld>& ranks);

/// The failure that the others followed from.
struct RankFailure {
  int rank = 0;
  int64_t step = -1;    // -1: before the first
  std::string action;   // "" outside of one
  bool killed = false;  // by a signal; else it failed by itself
  bool final = false;   // it would happen again: a mistake of the user, a loss that is not finite
  bool standstill = false;  // all ranks waited (hangs.hpp); this is one of them
};

struct NextEpoch {
  std::optional<int64_t> step;  // to go on with; nothing: the run ends
  bool from_disk = false;       // with the checkpoint before it, in place of snapshots
  std::string reason;           // why it ends
};

/// The ranks' snapshots, and what replaces them where they are damaged.
struct StatesLeft {
  std::vector<StepsHeld> ranks;        // without those that are damaged, or lost with a supervisor
  bool damaged = false, lost = false;  // some are
  std::optional<int64_t> saved;        // the step after the last checkpoint on disk
};

class Recovery {
 public:
  /// Decides about a run that one rank's failure has stopped. It ends where the failure is to be
  /// expected again: a rank fails by itself where it did before, all ranks wait a second time, or
  /// the third failure comes, without a step done in between.
  NextEpoch after(const RankFailure& failure, const StatesLeft& left);

 private:
  std::optional<RankFailure> last_;
  int64_t furthest_ = -1;  // step of a failure; one that is made again is none done
  int in_a_row_ = 0;       // failures since there was none later
};

}  // namespace penstock
