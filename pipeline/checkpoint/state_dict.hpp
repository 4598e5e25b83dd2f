// Weights from and to PyTorch: the model's own state_dict() as .safetensors.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/safetensors.hpp"
#include "graph/graph.hpp"
#include "pipeline/plan/plan.hpp"

namespace penstock {

/// Writes all parameters and persistent buffers under the names that the module's state_dict()
/// gives them, a tied one under each of its names. What training changes comes from the checkpoint
/// (a folder that `execute --save` wrote, or one of its step-N), all else, and everything without a
/// checkpoint, from the `.pt2`. One tensor at a time is in memory. Returns how many names it wrote.
/// Throws InputError for a checkpoint of another model or job, a damaged one, one that lacks a
/// tensor or has it in another shape, and a model that was exported without weights.
int64_t write_state_dict(const Plan& plan, const Graph& model,
                         const std::optional<std::filesystem::path>& checkpoint,
                         const std::filesystem::path& output);

/// The name in `file` of every parameter and persistent buffer, by index in Graph::tensors; a tied
/// one needs one of its names. Throws InputError for one that the file lacks or has in another
/// shape or type, and for one that the model does not have.
std::map<int, std::string> weights_by_tensor(const SafetensorsFile& file, const Graph& model);

}  // namespace penstock
