// The state of training as named tensors; their names are those of a checkpoint
// (pipeline/checkpoint/checkpoint.hpp).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "backend/data/safetensors.hpp"
#include "backend/executor/executor.hpp"
#include "backend/worker/loaded_plan.hpp"

namespace penstock {

/// All that this rank holds, each tensor once.
struct RankState {
  NamedTensors buffers;  // change in forwards
  NamedTensors trained;  // parameters and optimizer state, change in OPT
};
RankState rank_state(const LoadedPlan& loaded, Executor& executor);

/// Replaces the tensors that the executor has loaded by those of the files, whichever rank of
/// whatever split wrote them. `optimizer`: its state too. Throws InputError, which names `place`,
/// for one that is missing or of another shape.
void load_state(const std::vector<std::filesystem::path>& files, const std::string& place,
                const LoadedPlan& loaded, Executor& executor, bool optimizer = true);

}  // namespace penstock
