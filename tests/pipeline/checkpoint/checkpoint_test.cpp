// Any damage of a checkpoint is found, and one of another training refused.
#include "pipeline/checkpoint/checkpoint.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "base/error.hpp"
#include "tests/pipeline/checkpoint/saved_folder.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Checkpoint : public SavedFolder {
 protected:
  std::string damage(const fs::path& path) {
    return input_error([&] { read_intact(path); });
  }
  std::string refusal(const fs::path& path, const std::string& model = "model") {
    return input_error([&] { check_goes_on(path, read_manifest(path), plan_, model); });
  }
};

TEST_F(Checkpoint, SaysWhereToGoOn) {
  const fs::path path = save(7);
  const CheckpointManifest manifest = read_intact(path);
  EXPECT_EQ(manifest.step, 7);
  EXPECT_EQ(manifest.samples, 56);
  EXPECT_EQ(manifest.files.size(), 1u);
  EXPECT_TRUE(manifest.extra.is_null());
  check_goes_on(path, manifest, plan_, "model");
}

TEST_F(Checkpoint, KeepsWhatAScriptGivesBesideTheState) {
  const nlohmann::json extra = {{"epoch", 3}, {"best", {0.1, 1e-300}}, {"name", "größte"}};
  EXPECT_EQ(read_intact(save(7, extra)).extra, extra);
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

TEST_F(Checkpoint, AChangedCutOrMissingFileIsNamed) {
  const fs::path path = save(7);
  for (const char* content : {"Tensors", "tensor", ""}) {
    write_file(path / "stage-0.safetensors", content);
    EXPECT_THAT(damage(path), HasSubstr("stage-0.safetensors: has sha256"));
  }
  fs::remove(path / "stage-0.safetensors");
  EXPECT_THAT(damage(path), HasSubstr("stage-0.safetensors: cannot be read: No such file"));
  fs::remove(path / "manifest.json");
  EXPECT_THAT(damage(path), HasSubstr("manifest.json: cannot be read: No such file"));
}

TEST_F(Checkpoint, NoFlippedBitOfTheManifestGoesUnnoticed) {
  const fs::path path = save(7, {{"epoch", 3}});
  const fs::path file = path / "manifest.json";
  const std::string content = read_file(file);
  const std::string whole = to_json(read_intact(path));
  size_t noticed = 0;
  for (size_t bit = 0; bit < 8 * content.size(); ++bit) {
    std::string flipped = content;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    std::ofstream(file) << flipped;  // need not outlast a crash
    try {
      EXPECT_EQ(to_json(read_intact(path)), whole) << flipped;  // space, or the name of the hash
    } catch (const InputError&) {
      ++noticed;
    }
  }
  EXPECT_GT(noticed, 7 * content.size());
}

TEST_F(Checkpoint, NoCutOfTheManifestGoesUnnoticed) {
  const fs::path path = save(7);
  const std::string content = read_file(path / "manifest.json");
  for (size_t size = 0; size + 1 < content.size(); ++size) {
    std::ofstream(path / "manifest.json") << content.substr(0, size);
    EXPECT_THAT(damage(path), HasSubstr("manifest.json")) << size;
  }
}

}  // namespace
}  // namespace penstock
