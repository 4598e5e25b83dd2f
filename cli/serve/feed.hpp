// What a script feeds to the ranks of its process: which samples, and where in the shared memory.
#pragma once

#include <optional>

#include "cli/inputs/execute_check.hpp"
#include "launch/launcher.hpp"
#include "launch/shared_batch.hpp"

namespace penstock::cli {

/// Of a launcher the script feeds the rank of its process: the samples of its replica, and of the
/// tensors those that it reads. Otherwise it feeds all ranks. `rank` is -1 for all of them. Throws
/// InputError for a model whose inputs have no samples.
SharedBatch batch_of(const CheckedRun& checked, int rank, int descriptor);

/// The rank whose script this is, or -1 for that of all. Throws InputError where the launcher
/// started another number of processes than the plan has ranks.
int rank_of_script(const Plan& plan, const std::optional<Launcher>& launcher);

/// What the script needs to know of a batch: each tensor that it may pass, in the order of the
/// model's inputs and the target last: {name, dtype, shape, is_target, offset, limit, ignored};
/// `offset` is null for one that this rank does not read, limit and ignored (expected_samples.hpp)
/// where none is known.
nlohmann::json description(const CheckedRun& checked, const SharedBatch& batch);

}  // namespace penstock::cli
