// Saves and loads the state of training: parameters, optimizer state, buffers.
#pragma once

#include <filesystem>

#include "backend/communication/rendezvous.hpp"
#include "backend/executor/executor.hpp"
#include "backend/worker/loaded_plan.hpp"
#include "pipeline/checkpoint/writing.hpp"

namespace penstock {

/// All ranks call it between two steps. Every rank of replica 0 writes its stages, whole, into a
/// folder that all share; rank 0 renames it when all have written, and removes earlier ones. Throws
/// InputError on all ranks, with the reason, if one cannot write; the folder is then as before.
void save_checkpoint(const Saving& saving, const LoadedPlan& loaded, Executor& executor,
                     const Seat& seat);

/// Replaces the tensors that the executor has loaded by a checkpoint's, whatever split wrote it.
/// `optimizer`: its state too. Throws InputError for a parameter that is missing or of another
/// shape.
void load_checkpoint(const std::filesystem::path& checkpoint, const LoadedPlan& loaded,
                     Executor& executor, bool optimizer = true);

}  // namespace penstock
