// Saves and loads what training changes: parameters, optimizer state, buffers.
#pragma once

#include <filesystem>
#include <string>

#include "backend/communication/rendezvous.hpp"
#include "backend/executor/executor.hpp"
#include "backend/worker/loaded_plan.hpp"

namespace penstock {

/// All ranks call it between two steps; `step` is the next one. Every rank of replica 0 writes its
/// stages into a folder that all can see; rank 0 gives it its name when all have written. Throws
/// InputError if it cannot write.
void save_checkpoint(const std::filesystem::path& folder, int64_t step, const LoadedPlan& loaded,
                     Executor& executor, Communicator& communicator, const Seat& seat);

/// Puts a checkpoint's tensors, whatever split wrote it, in place of those that the executor has
/// loaded. Throws InputError for a parameter that is missing or of another shape.
void load_checkpoint(const std::filesystem::path& checkpoint, const LoadedPlan& loaded,
                     Executor& executor);

}  // namespace penstock
