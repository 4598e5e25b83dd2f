// A folder of small checkpoints.
#pragma once

#include <gtest/gtest.h>

#include "base/file.hpp"
#include "pipeline/checkpoint/saved.hpp"
#include "tests/base/support.hpp"

namespace penstock {

class SavedFolder : public ::testing::Test {
 protected:
  SavedFolder() {
    plan_.job.global_batch = 8;
    plan_.job.seed = 3;
  }

  /// A complete checkpoint of one small file before `step`.
  std::filesystem::path save(int64_t step, const nlohmann::json& extra = nullptr) {
    const std::filesystem::path path = checkpoint_path(folder(), step);
    std::filesystem::create_directories(path);
    write_file(path / "stage-0.safetensors", "tensors");
    CheckpointManifest manifest = manifest_of(plan_, "model", step);
    manifest.files["stage-0.safetensors"] = sha256("tensors");
    manifest.extra = extra;
    write_file(path / "manifest.json", to_json(manifest));
    return path;
  }
  const std::filesystem::path& folder() const { return folder_.path(); }

  Plan plan_;

 private:
  TemporaryFolder folder_;
};

}  // namespace penstock
