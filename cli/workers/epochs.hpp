// The epochs of a run that survives: what its workers begin with when all are replaced.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "launch/supervision/succession.hpp"

namespace penstock::cli {

/// A plan for fewer ranks than the run had.
struct SmallerPlan {
  std::string path;
  Assignment assignment;  // of its ranks to supervisors that are left
  std::string words;      // for people
};

struct SavedState {
  int64_t step = 0;  // that comes after it
  std::string path;
};

/// An epoch of a run that goes on.
struct Epoch {
  int64_t step = 0;                 // that it begins with
  std::optional<SavedState> saved;  // from that checkpoint, in place of snapshots
  std::optional<SmallerPlan> plan;  // another than before
  Assignment assignment;            // of ranks to supervisors, where there are several
  std::set<int> crew;               // these
  int64_t answered = 0;             // requests that the ranks of all of them had
  /// The last step whose snapshots count: those of later steps are taken again.
  int64_t newest_snapshot() const { return saved ? -1 : step; }
};

}  // namespace penstock::cli
