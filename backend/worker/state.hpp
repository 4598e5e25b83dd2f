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

/// The rank that writes a stage: the one that has it in replica 0, of a tensor group part 0.
int writer_of_stage(const LoadedPlan& loaded, int stage);

/// Writes the tensors of a stage into a file, at that rank, tensor by tensor and whole; where ranks
/// have parts of them or of the optimizer's state, the others send these. All ranks call it, stage
/// by stage. Throws InputError where it cannot write.
void write_stage(const std::filesystem::path& path, const LoadedPlan& loaded, int stage,
                 Executor& executor, int rank);

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
