// The other supervisors of a run and their ranks, as the leader of a fleet knows them from what
// they tell it.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "launch/progress.hpp"
#include "launch/supervision/hangs.hpp"
#include "launch/supervision/succession.hpp"

namespace penstock {

struct DamagedSlot {
  int rank = 0;
  size_t slot = 0;
  bool copy = false;  // one that another supervisor keeps
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DamagedSlot, rank, slot, copy)

struct Member {
  std::map<int, RankSlots> ranks;   // that it watches
  std::map<int, SlotSteps> copies;  // of other ranks' snapshots
  std::map<int, RankView> views;    // of those that run, as told last
  int machine = 0;                  // the first process of it
  bool ended = false;               // all its ranks have, in this epoch
  int64_t answered = 0;             // requests of its script, as told last
  bool has_come = false, lost = false;
  std::optional<std::vector<DamagedSlot>> damaged;  // its answer
  bool is_spare() const { return ranks.empty(); }
};

class Members {
 public:
  std::map<int, Member>& all() { return all_; }
  const std::map<int, Member>& all() const { return all_; }
  int count_come() const;
  Member& operator[](int process) { return all_[process]; }

  bool any_runs() const;
  bool runs(int rank) const;
  /// The process whose rank it is; nothing where it is none of theirs.
  std::optional<int> process_of(int rank) const;
  std::set<int> alive() const;
  /// Members that are not lost.
  std::map<int, RankView> views() const;
  /// The requests that all of them have answered, of `own` that this supervisor's have.
  int64_t answered(int64_t own) const;
  std::map<int, RankSlots> slots() const;
  HeldByProcess holders() const;
  /// A checkpoint of it is written.
  void release(int64_t step);
  /// They go on with that step, in an epoch in which they have these ranks; -1: with a checkpoint.
  void begin(int64_t next_step, const Assignment& assignment);

 private:
  std::map<int, Member> all_;  // by process
};

/// As SharedProgress does for the ranks of this supervisor.
void forget_snapshots_after(int64_t next_step, RankSlots& slots);

}  // namespace penstock
