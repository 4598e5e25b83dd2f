// A checkpoint on disk: a folder `step-N` with one .safetensors for each stage and a manifest.json
// with their hashes. The folder gets its name when everything in it is complete.
//
// Tensors: `parameter.NAME`, `buffer.NAME` (those that training changes), `optimizer.NAME.KEY`, and
// `steps.NAME`, the optimizer's steps of that parameter. Any split can load it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "pipeline/plan/plan.hpp"

namespace penstock {

struct CheckpointManifest {
  int64_t step = 0;     // the next step to run
  int64_t samples = 0;  // the next sample of the data
  uint64_t seed = 0;
  std::string model_sha256;
  std::string optimizer;                     // `sgd` or `adamw`, `… of float32 masters`
  std::map<std::string, std::string> files;  // sha256 by name
};

std::string to_json(const CheckpointManifest& manifest);
/// The manifest of a checkpoint before `step` of the plan, without its files.
CheckpointManifest manifest_of(const Plan& plan, const std::string& model_sha256, int64_t step);

/// It is a `step-N`, complete.
bool is_checkpoint(const std::filesystem::path& folder);
/// The steps N of its `step-N`, ascending; none where it is no folder.
std::vector<int64_t> saved_steps(const std::filesystem::path& folder);
/// Throws InputError if `folder` holds a checkpoint after `step`, the first that a run is to save
/// there: resuming takes the latest, which would be another run's.
void check_no_later_steps(const std::filesystem::path& folder, int64_t step);

/// `folder` itself if it has a manifest, else the one of its `step-N` with the largest N. Throws
/// InputError if there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& folder);
/// Reads the manifest alone. Throws InputError.
CheckpointManifest read_manifest(const std::filesystem::path& checkpoint);
/// Reads the manifest and checks every file's hash, and that the plan goes on with the same model,
/// optimizer, seed and data position. Throws InputError naming both values.
CheckpointManifest read_checkpoint(const std::filesystem::path& checkpoint, const Plan& plan,
                                   const std::string& model_sha256);

/// Where a checkpoint of that step lies in the end, and while it is written.
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, int64_t step);
std::filesystem::path unfinished_path(const std::filesystem::path& folder, int64_t step);

}  // namespace penstock
