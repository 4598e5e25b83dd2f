// Writes a checkpoint from snapshots, beside a run that goes on; by several supervisors together,
// where each has those of some ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
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

/// By the rank whose stages are written from it.
using RankSnapshots = std::map<int, RankSnapshot>;
using CheckpointFiles = std::map<std::string, std::string>;  // SHA-256 by name

/// The parts of a checkpoint that other supervisors write.
struct OtherParts {
  std::function<void()> begin = [] {};  // its folder is there
  /// Waits for their files; throws where one cannot be written, and soon after `stop`.
  std::function<CheckpointFiles(const std::stop_token& stop)> finish = [](const auto&) {
    return CheckpointFiles();
  };
};

/// Writes the stages of these ranks into the checkpoint's folder, which is there. Throws where it
/// cannot, as where a snapshot is damaged, and soon after `stop`.
CheckpointFiles write_part(const Saving& saving, const SavedRun& run, const RankSnapshots& ranks,
                           const std::stop_token& stop);

/// Writes the bytes that ranks would write (backend/worker/checkpoint.hpp), from the snapshots of
/// ranks that have all stages, but for `others`; nobody changes these meanwhile. Throws InputError
/// with the reason, also where a snapshot is damaged, or soon after `stop`; the folder is then as
/// before.
void write_checkpoint(const Saving& saving, const SavedRun& run, const RankSnapshots& ranks,
                      const OtherParts& others, const std::stop_token& stop);

}  // namespace penstock
