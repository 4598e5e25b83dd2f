// The options of supervising a run's workers.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "cli/workers/epochs.hpp"
#include "launch/supervision/slot_checkpoint.hpp"
#include "launch/worker_protocol.hpp"
#include "pipeline/program/program.hpp"

namespace penstock::cli {

/// The effect of the first SIGTERM or SIGUSR1; SIGINT and a second signal end the workers at once,
/// and a step of a run that survives gets 5 s to end.
enum class OnSignal { end, finish_step };

struct WorkersOptions {
  using Save = std::function<void(int64_t step, const RankSnapshots& snapshots,
                                  const OtherParts& others, const std::stop_token& stop)>;
  using SavePart = std::function<CheckpointFiles(int64_t step, const RankSnapshots& snapshots,
                                                 const std::stop_token& stop)>;
  OnSignal on_signal = OnSignal::end;
  bool survive = false;  // a failure: the workers are replaced, and go on from their snapshots
  bool peers = false;  // supervisors keep copies of each other's snapshots, so as to survive a loss
  int64_t end = std::numeric_limits<int64_t>::max();  // the step after the run's last
  const Program* program = nullptr;                   // of the ranks, to find a lost message in
  int parts = 1;                                      // ranks of a tensor group, which share it
  /// Ranks whose numbers differ by a multiple of it have the same state; 0: none have.
  int alike = 0;
  /// The last checkpoint of the run, for where snapshots are damaged; nothing where there is none.
  std::function<std::optional<SavedState>()> find_saved = [] { return std::nullopt; };
  /// Writes the checkpoint before a step from these snapshots into the workers' folder for
  /// checkpoints. Called in another thread. Empty where the run saves none, or its workers do.
  Save save;
  SavePart save_part;  // the same of a checkpoint that another supervisor writes the rest of
  /// Writes a plan for these supervisors, with which the run goes on from a checkpoint. Called in
  /// another thread; throws where there is none, and soon after `stop`. Empty: the run ends
  /// where supervisors are lost that no spare replaces.
  std::function<SmallerPlan(const std::set<int>& alive, const std::function<bool()>& stop)>
      plan_anew;
  /// Makes a worker's task, and these options, those of that plan. Throws InputError.
  std::function<void(const std::string& plan, WorkerTask& task, WorkersOptions& options)> adopt;
};

}  // namespace penstock::cli
