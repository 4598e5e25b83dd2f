// Saves and loads the state of training: parameters, optimizer state, buffers.
#pragma once

#include <filesystem>
#include <string>

#include "backend/communication/rendezvous.hpp"
#include "backend/executor/executor.hpp"
#include "backend/worker/loaded_plan.hpp"

namespace penstock {

/// All ranks call it between two steps; `step` is the next one. Every rank of replica 0 writes its
/// stages into a folder that all share; rank 0 renames it when all have written. Throws InputError
/// if it cannot write.
void save_checkpoint(const std::filesystem::path& folder, int64_t step, const LoadedPlan& loaded,
                     Executor& executor, Communicator& communicator, const Seat& seat);

/// Replaces the tensors that the executor has loaded by a checkpoint's, whatever split wrote it.
/// `optimizer`: its state too. Throws InputError for a parameter that is missing or of another
/// shape.
void load_checkpoint(const std::filesystem::path& checkpoint, const LoadedPlan& loaded,
                     Executor& executor, bool optimizer = true);

}  // namespace penstock
