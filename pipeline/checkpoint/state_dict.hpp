// Trained weights back to PyTorch: the model's own state_dict() as .safetensors.
#pragma once

#include <filesystem>
#include <optional>

#include "graph/graph.hpp"
#include "pipeline/checkpoint/saved.hpp"
#include "pipeline/plan/plan.hpp"

namespace penstock {

/// Writes all parameters and persistent buffers under the names that the module's state_dict()
/// gives them, a tied one under each of its names. What training changes comes from the
/// checkpoint, all else, and everything without a checkpoint, from the `.pt2`. One tensor at a time
/// is in memory. Returns how many names it wrote. Throws InputError for a checkpoint of another
/// model or job, one that lacks a tensor or has it in another shape, and a model that was exported
/// without weights.
int64_t write_state_dict(const Plan& plan, const Graph& model,
                         const std::optional<IntactCheckpoint>& checkpoint,
                         const std::filesystem::path& output);

}  // namespace penstock
