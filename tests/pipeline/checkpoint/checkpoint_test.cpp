// Which checkpoint is found, and which is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "pipeline/checkpoint/checkpoint.hpp"
#include "tests/base/support.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Checkpoint : public ::testing::Test {
 protected:
  Checkpoint() {
    std::string name = (fs::temp_directory_path() / "penstock-test-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    plan_.job.global_batch = 8;
    plan_.job.seed = 3;
  }
  ~Checkpoint() override { fs::remove_all(folder_); }

  /// A complete checkpoint of one small file before `step`.
  fs::path save(int64_t step) {
    fs::path path = checkpoint_path(folder_, step);
    fs::create_directories(path);
    write_file(path / "stage-0.safetensors", "tensors");
    CheckpointManifest manifest = manifest_of(plan_, "model", step);
    manifest.files["stage-0.safetensors"] = sha256("tensors");
    write_file(path / "manifest.json", to_json(manifest));
    return path;
  }

  std::string refusal(const fs::path& path, const std::string& model = "model") {
    try {
      read_checkpoint(path, plan_, model);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
  Plan plan_;
};

TEST_F(Checkpoint, TheLatestCompleteOneIsFound) {
  save(9);
  save(10);
  fs::create_directories(checkpoint_path(folder_, 11));  // without a manifest
  fs::create_directories(unfinished_path(folder_, 12));
  EXPECT_EQ(find_checkpoint(folder_), checkpoint_path(folder_, 10));
  EXPECT_EQ(find_checkpoint(checkpoint_path(folder_, 9)), checkpoint_path(folder_, 9));
}

TEST_F(Checkpoint, OnlyFoldersNamedAsTheyAreSavedCount) {
  save(9);
  save(10);
  fs::create_directories(checkpoint_path(folder_, 11));  // without a manifest
  for (const char* name : {"step-012", "step-13x", "step-", "step--4"}) {
    fs::copy(checkpoint_path(folder_, 9), folder_ / name);
  }
  EXPECT_THAT(saved_steps(folder_), ElementsAre(9, 10));
  EXPECT_TRUE(saved_steps(folder_ / "none").empty());
  EXPECT_TRUE(is_checkpoint(checkpoint_path(folder_, 9)));
  EXPECT_FALSE(is_checkpoint(folder_));
}

TEST_F(Checkpoint, AFolderWithLaterStepsOfAnotherRunIsRefused) {
  save(9);
  check_no_later_steps(folder_, 10);
  check_no_later_steps(folder_, 9);  // replaced
  check_no_later_steps(folder_ / "none", 1);
  const std::string message = input_error([&] { check_no_later_steps(folder_, 8); });
  for (const char* word : {"step 9", "step 8", "--resume", "another folder", "remove"}) {
    EXPECT_THAT(message, HasSubstr(word));
  }
  EXPECT_THAT(message, HasSubstr(folder_.string()));
}

TEST_F(Checkpoint, AFolderWithoutOneIsRefused) {
  EXPECT_THROW(find_checkpoint(folder_), InputError);
  EXPECT_THROW(find_checkpoint(folder_ / "none"), InputError);
}

TEST_F(Checkpoint, SaysWhereToGoOn) {
  const CheckpointManifest manifest = read_checkpoint(save(7), plan_, "model");
  EXPECT_EQ(manifest.step, 7);
  EXPECT_EQ(manifest.samples, 56);
  EXPECT_EQ(manifest.files.size(), 1u);
}

TEST_F(Checkpoint, AnotherModelSeedBatchOrOptimizerIsRefused) {
  const fs::path path = save(7);
  EXPECT_THAT(refusal(path, "other"), HasSubstr("model sha256 model, but the plan has other"));
  plan_.job.seed = 4;
  EXPECT_THAT(refusal(path), HasSubstr("seed 3, but the plan has 4"));
  plan_.job.seed = 3;
  plan_.job.global_batch = 4;
  EXPECT_THAT(refusal(path), HasSubstr("next sample 56, but the plan has 28"));
  plan_.job.global_batch = 8;
  plan_.job.optimizer.kind = OptimizerSpec::Kind::adamw;
  EXPECT_THAT(refusal(path), HasSubstr("optimizer sgd, but the plan has adamw"));
}

TEST_F(Checkpoint, AChangedFileIsRefused) {
  const fs::path path = save(7);
  EXPECT_EQ(refusal(path), "");
  write_file(path / "stage-0.safetensors", "Tensors");
  EXPECT_THAT(refusal(path), HasSubstr("stage-0.safetensors"));
  write_file(path / "manifest.json", "{\"version\": 1");
  EXPECT_THAT(refusal(path), HasSubstr("manifest.json"));
}

}  // namespace
}  // namespace penstock
