// Writes a checkpoint from snapshots, beside a run that goes on.
#pragma once

#include <cstdint>
#include <map>
#include <stop_token>
#include <vector>

#include "launch/supervision/slot.hpp"
#include "pipeline/checkpoint/writing.hpp"

namespace penstock {

/// A run, as far as its checkpoints depend on it besides its state.
struct SavedRun {
  const Plan& plan;
  const Graph& graph;
  const Slicing& slicing;
  const std::vector<int>& rank_of_stage;
};

struct RankSnapshot {
  const SnapshotSlot* slot = nullptr;
  uint64_t checksum = 0;
};

/// Writes the bytes that ranks would write (backend/worker/checkpoint.hpp), from the snapshots of
/// the ranks that have a stage; nobody changes these meanwhile. Throws InputError with the reason,
/// also where a snapshot is damaged, or soon after `stop`; the folder is then as before.
void write_checkpoint(const Saving& saving, const SavedRun& run,
                      const std::map<int, RankSnapshot>& ranks, const std::stop_token& stop);

}  // namespace penstock
