// DescribedWeights: views of storages, ties, and what a damaged description may not do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "graph/pt2/pt2.hpp"
#include "tests/graph/pt2/pt2_file.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Json;
using testing::Pt2;
using testing::TemporaryFile;
using testing::tensor_meta;
using ::testing::ThrowsMessage;

/// A storage of 0, 1, 2, …
std::string counting(int count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i);
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

/// The file with `w` as described, and further parameters after it.
class DescribedWeights : public Pt2 {
 public:
  DescribedWeights(const Json& meta, std::string storage) {
    add_weight("w", "weight_0", meta, std::move(storage));
  }
  void add(const std::string& name, const std::string& file, const Json& meta,
           std::string storage) {
    add_weight(name, file, meta, std::move(storage));
    graph()["tensor_values"]["p_" + name] = meta;
    signature()["input_specs"].push_back(
        {{"parameter", {{"arg", {{"name", "p_" + name}}}, {"parameter_name", name}}}});
  }
  std::vector<float> values(const std::string& name) const {
    const TemporaryFile file;
    write(file.path);
    const Graph graph = read_pt2(file.path);
    const StoredTensor& tensor =
        graph.tensors[static_cast<size_t>(graph.tensor_by_name().at(name))];
    std::vector<float> result(static_cast<size_t>(tensor.elements()));
    WeightFile(file.path).read(tensor, std::as_writable_bytes(std::span(result)));
    return result;
  }
};

TEST(DescribedWeights, ContiguousTensorsAreTheirStorage) {
  EXPECT_THAT(DescribedWeights(tensor_meta({3}, {1}), counting(3)).values("w"),
              ElementsAre(0, 1, 2));
}

/// Bytes by which a process's memory grows at most while it does `action`.
template <typename Action>
int64_t peak_growth(const Action& action) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  const pid_t child = fork();
  if (child == 0) {
    rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    action();
    getrusage(RUSAGE_SELF, &after);
    const int64_t grown = (after.ru_maxrss - before.ru_maxrss) * 1024;
    _exit(write(ends[1], &grown, sizeof grown) == sizeof grown ? 0 : 1);
  }
  int64_t grown = -1;
  if (child < 0 || read(ends[0], &grown, sizeof grown) != sizeof grown) grown = INT64_MAX;
  for (const int end : ends) close(end);
  waitpid(child, nullptr, 0);
  return grown;
}

/// Weights of many layers may lie in one storage: a stage reads its own without holding the others.
TEST(DescribedWeights, APartOfALargeStorageIsReadWithoutHoldingTheStorage) {
  constexpr int count = 16 << 20;  // 64 MiB
  const TemporaryFile file;
  DescribedWeights(tensor_meta({3}, {1}, 7, count / 2), counting(count)).write(file.path);
  const Graph graph = read_pt2(file.path);
  StoredTensor tensor = graph.tensors.at(0);
  for (const int64_t stride : {1, 2}) {
    tensor.strides = {stride};
    const int64_t grown = peak_growth([&] {
      float values[3];
      WeightFile(file.path).read(tensor, std::as_writable_bytes(std::span(values)));
      if (values[2] != static_cast<float>(int64_t{count / 2} + 2 * stride)) std::abort();
    });
    EXPECT_LT(grown, 8 << 20) << "stride " << stride;  // buffers of libzip and pages of code
  }
}

TEST(DescribedWeights, StridesAndOffsetsAreApplied) {
  EXPECT_THAT(DescribedWeights(tensor_meta({2, 3}, {1, 2}), counting(6)).values("w"),
              ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_THAT(DescribedWeights(tensor_meta({3}, {1}, 7, 2), counting(6)).values("w"),
              ElementsAre(2, 3, 4));
}

TEST(DescribedWeights, ExpandedTensorsHaveShortStorages) {
  EXPECT_THAT(DescribedWeights(tensor_meta({3, 2}, {0, 1}), counting(2)).values("w"),
              ElementsAre(0, 1, 0, 1, 0, 1));
}

TEST(DescribedWeights, ScalarsAndEmptyTensors) {
  EXPECT_THAT(DescribedWeights(tensor_meta(Json::array(), Json::array()), counting(1)).values("w"),
              ElementsAre(0));
  EXPECT_THAT(DescribedWeights(tensor_meta({0, 3}, {3, 1}), "").values("w"), IsEmpty());
}

TEST(DescribedWeights, TwoViewsOfOneStorageAreTwoTensors) {
  DescribedWeights file(tensor_meta({3}, {1}), counting(6));
  file.add("v", "weight_0", tensor_meta({3}, {1}, 7, 3), counting(6));
  EXPECT_THAT(file.values("w"), ElementsAre(0, 1, 2));
  EXPECT_THAT(file.values("v"), ElementsAre(3, 4, 5));
}

TEST(DescribedWeights, TiedNamesAreOneTensorUnderTheFirst) {
  DescribedWeights file(tensor_meta({3}, {1}), counting(3));
  file.add("also", "weight_0", tensor_meta({3}, {1}), counting(3));
  const Graph graph = file.read();
  ASSERT_EQ(graph.tensors.size(), 1u);
  // Both names bind the one value; JSON objects written here are in alphabetic order.
  EXPECT_EQ(graph.tensors[0].name, "also");
  EXPECT_THAT(graph.tensors[0].aliases, ElementsAre("w"));
  EXPECT_EQ(graph.values.size(), 4u);
}

TEST(DescribedWeights, MetaExportsHaveNoValuesAndTiesOnlyByName) {
  DescribedWeights file(tensor_meta({3}, {1}), "");
  file.add("also", "weight_0", tensor_meta({3}, {1}), "");
  EXPECT_EQ(file.read().tensors.size(), 2u);
  EXPECT_EQ(file.read().tensors[0].file, "");
  EXPECT_THAT([&] { file.values("w"); }, ThrowsMessage<InputError>(AllOf(
                                             HasSubstr("no values for 'w'"), HasSubstr("--meta"))));
  file.members["m/extra/penstock.json"] = R"({"tied": [["also", "w"]]})";
  ASSERT_EQ(file.read().tensors.size(), 1u);
  EXPECT_THAT(file.read().tensors[0].aliases, ElementsAre("w"));
}

TEST(DescribedWeights, BuffersMayBeUpdatedAndLeftOutOfStateDictionaries) {
  Pt2 file;
  file.signature()["input_specs"][0] = {
      {"buffer", {{"arg", {{"name", "p_w"}}}, {"buffer_name", "w"}, {"persistent", false}}}};
  file.signature()["output_specs"].push_back(
      {{"buffer_mutation", {{"arg", {{"name", "mul"}}}, {"buffer_name", "w"}}}});
  const Graph graph = file.read();
  EXPECT_EQ(graph.tensors[0].kind, StoredTensor::Kind::buffer);
  EXPECT_FALSE(graph.tensors[0].persistent);
  ASSERT_EQ(graph.updates.size(), 1u);
  EXPECT_EQ(graph.values[static_cast<size_t>(graph.updates[0].value)].name, "mul");
}

TEST(DescribedWeights, ImpossibleDescriptionsAreRefused) {
  const auto refused = [](const Json& meta, const std::string& storage, const std::string& reason) {
    EXPECT_THAT([&] { DescribedWeights(meta, storage).read(); },
                ThrowsMessage<InputError>(HasSubstr(reason)));
  };
  refused(tensor_meta({3}, {1}), counting(2), "needs 12 bytes");
  refused(tensor_meta({3}, {1}, 7, 1), counting(3), "needs 16 bytes");
  refused(tensor_meta({-1}, {1}), counting(3), "impossible");
  refused(tensor_meta({3}, {-1}), counting(3), "impossible");
  refused(tensor_meta({3}, {1}, 7, -1), counting(3), "impossible");
  refused(tensor_meta({3, 2}, {1}), counting(3), "impossible");
  refused(tensor_meta({INT64_MAX, 2}, {INT64_MAX, 2}), counting(3), "impossible");
  refused(tensor_meta({INT64_MAX, 1024}, {0, 0}), counting(3), "64 bits");
  refused(tensor_meta({3}, {1}, 99), counting(3), "element type");
}

TEST(DescribedWeights, MissingOrPickledValuesAreRefused) {
  Pt2 pickled;
  pickled.weights["config"]["w"]["use_pickle"] = true;
  EXPECT_THAT([&] { pickled.read(); }, ThrowsMessage<InputError>(HasSubstr("no values for 'w'")));
  Pt2 missing;
  missing.members.erase("m/data/weights/weight_0");
  EXPECT_THAT([&] { missing.read(); }, ThrowsMessage<InputError>(HasSubstr("no member")));
  Pt2 outside;
  outside.weights["config"]["w"]["path_name"] = "../../../etc/passwd";
  EXPECT_THAT([&] { outside.read(); }, ThrowsMessage<InputError>(HasSubstr("no member")));
}

}  // namespace
}  // namespace penstock
