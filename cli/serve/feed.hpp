// The samples that a script feeds to the ranks of its process, and their place in shared memory.
#pragma once

#include <optional>

#include "cli/inputs/execute_check.hpp"
#include "launch/launcher.hpp"
#include "launch/shared_batch.hpp"

namespace penstock::cli {

/// The batch that a script feeds: to `rank`, which its launcher started it as, the samples of that
/// rank's replica, and the tensors that the rank reads; or to all ranks, where `rank` is -1. Throws
/// InputError for a model whose inputs have no samples.
SharedBatch batch_of(const CheckedRun& checked, int rank, int descriptor);

/// The rank whose script this is, or -1 for that of all. Throws InputError where the launcher
/// started another number of processes than the plan has ranks.
int rank_of_script(const Plan& plan, const std::optional<Launcher>& launcher);

/// Describes a batch to the script: each tensor that it may pass, in the order of the
/// model's inputs and the target last: {name, dtype, shape, is_target, offset, limit, ignored};
/// `offset` is null for one that this rank does not read, limit and ignored (expected_samples.hpp)
/// where none is known.
nlohmann::json description(const CheckedRun& checked, const SharedBatch& batch);

}  // namespace penstock::cli
