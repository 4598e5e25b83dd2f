// A checkpoint on disk: a folder `step-N` with one .safetensors for each stage and a manifest.json
// with their hashes. The folder gets its name when everything in it is complete and on the disk.
//
// Tensors: `parameter.NAME`, `buffer.NAME` (those that training changes), `optimizer.NAME.KEY`, and
// `steps.NAME`, the optimizer's steps of that parameter. Any split can load it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "pipeline/plan/plan.hpp"

namespace penstock {

struct CheckpointManifest {
  int64_t step = 0;     // the next step to run
  int64_t samples = 0;  // the next sample of the data
  uint64_t seed = 0;
  std::string model_sha256;
  std::string optimizer;                     // `sgd` or `adamw`, `… of float32 masters`
  std::map<std::string, std::string> files;  // sha256 by name
  nlohmann::json extra;                      // what a script keeps beside the state; null: nothing
};

std::string to_json(const CheckpointManifest& manifest);
/// The manifest of a checkpoint before `step` of the plan, without its files.
CheckpointManifest manifest_of(const Plan& plan, const std::string& model_sha256, int64_t step);

/// It has a manifest.
bool is_checkpoint(const std::filesystem::path& folder);
/// Reads the manifest alone. Throws InputError.
CheckpointManifest read_manifest(const std::filesystem::path& checkpoint);
/// Reads the manifest and the hash of every file. Throws InputError with the damage: what cannot be
/// read, or is not as it was written.
CheckpointManifest read_intact(const std::filesystem::path& checkpoint);
/// The plan goes on with the same model, optimizer, seed and data position. Throws InputError
/// naming both values.
void check_goes_on(const std::filesystem::path& checkpoint, const CheckpointManifest& manifest,
                   const Plan& plan, const std::string& model_sha256);

}  // namespace penstock
