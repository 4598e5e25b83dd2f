// Writing a checkpoint, stage by stage, in whichever process has the state: what its files hold, in
// which order, and how its folder comes to its name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "graph/cuts/slice.hpp"
#include "pipeline/checkpoint/checkpoint.hpp"

namespace penstock {

/// A checkpoint to be written.
struct Saving {
  std::filesystem::path folder;
  int64_t step = 0;      // the next one
  int64_t keep = 0;      // so many of the latest in the folder, this one among them
  nlohmann::json extra;  // kept in the manifest; only rank 0's counts
};

std::string stage_file_name(int stage);
/// The names of a stage's tensors, in the order of its file. `held`: those of all that its rank
/// holds, without what neither is trained nor was.
std::vector<std::string> stage_contents(const Graph& graph, const StageSlice& stage,
                                        const std::set<std::string>& held);

/// Makes the folder that the stages' files are written into. Throws InputError.
std::filesystem::path begin_checkpoint(const Saving& saving);
/// Adds the manifest, whose `files` are written, gives the folder its name and removes earlier
/// checkpoints. Throws InputError.
void put_together(const Saving& saving, const CheckpointManifest& manifest);
/// The error to throw once what was begun is removed.
InputError not_saved(const Saving& saving, const std::string& problem);

}  // namespace penstock
