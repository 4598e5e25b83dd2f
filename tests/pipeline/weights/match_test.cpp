// State dictionaries of one file or of shards, and how their names and forms fit a model.
#include "pipeline/weights/match.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/base/support.hpp"
#include "tests/graph/build_graph.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Forms = std::map<std::string, std::vector<int64_t>>;

class Weights {
 public:
  /// Writes a file of float32 zeros.
  std::filesystem::path write(const std::string& name, const Forms& forms,
                              DType dtype = DType::float32) const {
    std::vector<SafetensorsTensor> tensors;
    for (const auto& [key, shape] : forms) {
      int64_t count = 1;
      for (const int64_t size : shape) count *= size;
      tensors.push_back({key, dtype, shape,
                         std::span(zeros_).first(static_cast<size_t>(count * size_bytes(dtype)))});
    }
    write_safetensors(folder_.path() / name, tensors);
    return folder_.path() / name;
  }
  std::filesystem::path index(const std::map<std::string, std::string>& map) const {
    return folder_.write("model.safetensors.index.json",
                         nlohmann::json{{"metadata", {}}, {"weight_map", map}}.dump());
  }
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  std::vector<std::byte> zeros_ = std::vector<std::byte>(4096);
};

/// Two layers under `model.` and a head, which is tied to the embedding.
Graph two_layers() {
  testing::GraphBuilder b;
  b.parameter("model.embed.weight", {8, 4});
  b.parameter("model.layers.0.weight", {4, 4});
  b.parameter("model.layers.1.weight", {4, 4});
  b.buffer("model.steps", {1});
  b.graph.tensors[0].aliases = {"head.weight"};
  return b.graph;
}

const Forms kAll{{"model.embed.weight", {8, 4}},
                 {"model.layers.0.weight", {4, 4}},
                 {"model.layers.1.weight", {4, 4}},
                 {"model.steps", {1}}};

Forms without_prefix() {
  Forms forms;
  for (const auto& [name, shape] : kAll) forms[name.substr(6)] = shape;
  return forms;
}

Forms with_prefix() {
  Forms forms;
  for (const auto& [name, shape] : kAll) forms["net." + name] = shape;
  return forms;
}

TEST(MatchWeights, NamesOfTheModelAreTakenAsTheyAre) {
  const Weights weights;
  const StateFiles files(weights.write("w.safetensors", kAll));
  const MatchedWeights matched = match_weights(files, two_layers());
  ASSERT_EQ(matched.tensors.size(), 4u);
  EXPECT_EQ(matched.tensors.at(2).name, "model.layers.1.weight");
  EXPECT_EQ(matched.renaming, "");
}

TEST(MatchWeights, ATiedTensorNeedsOneOfItsNames) {
  Forms forms = kAll;
  forms.erase("model.embed.weight");
  forms["head.weight"] = {8, 4};
  const Weights weights;
  const StateFiles files(weights.write("w.safetensors", forms));
  EXPECT_EQ(match_weights(files, two_layers()).tensors.at(0).name, "head.weight");
}

TEST(MatchWeights, APrefixThatOneSideLacksIsFoundAndTold) {
  const Weights weights;
  const StateFiles shorter(weights.write("shorter.safetensors", without_prefix()));
  const MatchedWeights lacking = match_weights(shorter, two_layers());
  EXPECT_EQ(lacking.tensors.at(1).name, "layers.0.weight");
  EXPECT_THAT(lacking.renaming, HasSubstr("lack the `model.`"));
  const StateFiles longer(weights.write("longer.safetensors", with_prefix()));
  const MatchedWeights having = match_weights(longer, two_layers());
  EXPECT_EQ(having.tensors.at(1).name, "net.model.layers.0.weight");
  EXPECT_THAT(having.renaming, HasSubstr("have `net.`"));
}

TEST(MatchWeights, FloatingTypesMayDifferAndOthersNot) {
  const Weights weights;
  const StateFiles half(weights.write("half.safetensors", kAll, DType::bfloat16));
  EXPECT_EQ(match_weights(half, two_layers()).tensors.size(), 4u);
  const StateFiles whole(weights.write("whole.safetensors", kAll, DType::int64));
  EXPECT_THAT(input_error([&] { match_weights(whole, two_layers()); }),
              HasSubstr("model.steps (int64 [1], the model's is float32 [1])"));
}

TEST(MatchWeights, EverythingThatDoesNotFitIsNamedInOneMessage) {
  Forms forms = kAll;
  forms.erase("model.layers.1.weight");
  forms["model.layers.0.weight"] = {4, 2};
  forms["model.layers.0.bias"] = {4};
  const Weights weights;
  const StateFiles files(weights.write("w.safetensors", forms));
  EXPECT_THAT(input_error([&] { match_weights(files, two_layers()); }),
              AllOf(HasSubstr("w.safetensors"), HasSubstr("lacks model.layers.1.weight"),
                    HasSubstr("model.layers.0.bias"),
                    HasSubstr("model.layers.0.weight (float32 [4, 2], the model's is float32 "
                              "[4, 4])")));
}

TEST(MatchWeights, NoMoreThanEightOfAKindAreNamed) {
  testing::GraphBuilder b;
  for (int i = 0; i < 11; ++i) b.parameter("w" + std::to_string(i + 10), {1});
  const Weights weights;
  const StateFiles files(weights.write("w.safetensors", {{"other", {1}}}));
  EXPECT_THAT(input_error([&] { match_weights(files, b.graph); }),
              AllOf(HasSubstr("w17 and 3 more"), Not(HasSubstr("w18"))));
}

TEST(StateFiles, AnIndexOrItsFolderNamesShards) {
  const Weights weights;
  weights.write("one.safetensors", {{"a", {1}}});
  weights.write("two.safetensors", {{"b", {2}}});
  const auto index = weights.index({{"a", "one.safetensors"}, {"b", "two.safetensors"}});
  for (const auto& path : {index, weights.folder()}) {
    const StateFiles files(path);
    ASSERT_EQ(files.tensors().size(), 2u);
    EXPECT_THAT(files.tensors().at("b")->path(), HasSubstr("two.safetensors"));
  }
}

TEST(StateFiles, ShardsThatAreNotThereOrElsewhereAreRefused) {
  const Weights weights;
  weights.write("one.safetensors", {{"a", {1}}});
  const auto refused = [&](const std::string& tensor, const std::string& shard) {
    const auto index = weights.index({{tensor, shard}});
    return input_error([&] { StateFiles{index}; });
  };
  EXPECT_THAT(refused("b", "one.safetensors"), HasSubstr("has no 'b'"));
  EXPECT_THAT(refused("a", "two.safetensors"), HasSubstr("two.safetensors"));
  EXPECT_THAT(refused("a", "../one.safetensors"), HasSubstr("not the name of a file"));
  EXPECT_THAT(refused("a", ""), HasSubstr("not the name of a file"));
  const Weights empty;
  EXPECT_THAT(input_error([&] { StateFiles{empty.folder()}; }), HasSubstr("holds neither"));
}

}  // namespace
}  // namespace penstock
