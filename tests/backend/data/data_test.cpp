// A job's data: which samples, in which dtype and shape, and which mistakes are named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/data/data.hpp"
#include "backend/data/safetensors.hpp"
#include "base/error.hpp"
#include "tests/backend/support.hpp"

namespace penstock {
namespace {

using test::message_of;
using ::testing::HasSubstr;

/// A model that embeds `tokens` [batch, 4] (int64) in a table of `rows` and gives [batch, 4, rows].
Graph token_model(int64_t rows) {
  Graph graph;
  graph.path = "model.pt2";
  graph.values = {
      {"tokens", Value::Kind::user_input, DType::int64, {Expression::batch(), 4}},
      {"weight", Value::Kind::tensor, DType::float32, {rows, rows}},
      {"out", Value::Kind::intermediate, DType::float32, {Expression::batch(), 4, rows}}};
  graph.inputs = {0};
  Operator embedding;
  embedding.name = "embedding";
  embedding.target = "aten::embedding";
  embedding.arguments = {{"weight", TensorRef{1}}, {"indices", TensorRef{0}}};
  embedding.outputs = {2};
  graph.operators = {embedding};
  graph.outputs = {{"output", TensorRef{2}}};
  return graph;
}

Job text_job(const std::string& path) {
  Job job;
  job.data = {path};
  job.sequence = 4;
  return job;
}

std::vector<int64_t> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.flatten();
  return {flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()};
}

TEST(Data, TextIsWindowsOfBytesThatStartOverAtTheEnd) {
  const test::TemporaryFolder folder;
  const Data data(text_job(folder.write("t.txt", "abcdefghijk")), token_model(128));
  // 11 bytes: two windows of 4 with a byte after each; the third would have none.
  EXPECT_EQ(numbers(data.read("tokens", 0, 1)), (std::vector<int64_t>{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(numbers(data.read("target", 1, 1)), (std::vector<int64_t>{'f', 'g', 'h', 'i'}));
  EXPECT_EQ(numbers(data.read("tokens", 1, 2)),
            (std::vector<int64_t>{'e', 'f', 'g', 'h', 'a', 'b', 'c', 'd'}));
  EXPECT_EQ(data.read("tokens", 7, 5).sizes(), (at::IntArrayRef{5, 4}));
}

TEST(Data, WindowsRunAcrossFiles) {
  const test::TemporaryFolder folder;
  Job job = text_job(folder.write("1.txt", "abc"));
  job.data.push_back(folder.write("empty.txt", ""));
  job.data.push_back(folder.write("2.txt", "defghi"));
  const Data data(job, token_model(128));
  EXPECT_EQ(numbers(data.read("tokens", 0, 1)), (std::vector<int64_t>{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(numbers(data.read("target", 0, 2)),
            (std::vector<int64_t>{'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'}));
}

TEST(Data, BinIsUnsigned16) {
  const test::TemporaryFolder folder;
  const Data data(
      text_job(folder.write("t.bin", std::string("\x01\x00\xff\xff\x03\x00\x04\x00\x05\x00", 10))),
      token_model(70000));
  EXPECT_EQ(numbers(data.read("tokens", 0, 1)), (std::vector<int64_t>{1, 65535, 3, 4}));
  EXPECT_EQ(numbers(data.read("target", 0, 1)), (std::vector<int64_t>{65535, 3, 4, 5}));
}

TEST(Data, NamesTheTokenThatTheEmbeddingLacks) {
  const test::TemporaryFolder folder;
  const Data data(text_job(folder.write("t.txt", "aaaabbbz\x7e")), token_model(123));
  EXPECT_EQ(data.read("tokens", 0, 2).numel(), 8);
  EXPECT_THAT(message_of<InputError>([&] { data.read("target", 1, 1); }),
              HasSubstr("target 126 in sample 1 is not in 0..122"));
}

TEST(Data, TextNeedsAWindowAndAFittingModel) {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const Job& job) {
    return message_of<InputError>([&] { Data(job, token_model(256)); });
  };
  Job job = text_job(folder.write("t.txt", "abcd"));
  EXPECT_THAT(refusal(job), HasSubstr("4 tokens are too few for one window of 4"));
  job.sequence = 3;
  EXPECT_THAT(refusal(job),
              HasSubstr("is uint8 [samples, 3], but the model takes int64 [samples, 4]"));
  job.sequence = 0;
  EXPECT_THAT(refusal(job), HasSubstr("sequence is missing"));
  job.data = {folder / "none.txt"};
  EXPECT_THAT(refusal(text_job(folder / "none.txt")), HasSubstr("none.txt"));
  job.data.clear();
  EXPECT_THAT(refusal(job), HasSubstr("data is missing"));
  EXPECT_THAT(refusal(text_job(folder.write("odd.bin", "abcdefghijk"))),
              HasSubstr("odd number of bytes"));
}

TEST(Data, TensorsStartOverAndAreConverted) {
  const test::TemporaryFolder folder;
  const at::Tensor tokens = at::arange(12, at::kInt).reshape({3, 4});
  const std::string path = folder / "d.safetensors";
  write_tensors(path, {{"tokens", tokens}, {"target", tokens.to(at::kLong) + 1}});
  Job job;
  job.data = {path};
  const Data data(job, token_model(100));
  EXPECT_TRUE(data.read("tokens", 2, 4)
                  .equal(tokens.index_select(0, at::tensor({2, 0, 1, 2})).to(at::kLong)));
  EXPECT_TRUE(data.read("target", 4, 1).equal(tokens.to(at::kLong).slice(0, 1, 2) + 1));
}

TEST(Data, CountsTargetsThatAreNotIgnored) {
  const test::TemporaryFolder folder;
  at::Tensor target = at::zeros({2, 4}, at::kLong);
  target[1][2] = kIgnoredTarget;
  const std::string path = folder / "d.safetensors";
  write_tensors(path, {{"tokens", at::zeros({2, 4}, at::kLong)}, {"target", target}});
  Job job;
  job.data = {path};
  const Data data(job, token_model(100));
  EXPECT_EQ(data.counted_targets(0, 2), 7);
  EXPECT_EQ(data.counted_targets(1, 1), 3);
}

TEST(Data, NamesTheTensorThatDoesNotFit) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "d.safetensors";
  const auto refusal = [&](const NamedTensors& tensors) {
    write_tensors(path, tensors);
    Job job;
    job.data = {path};
    return message_of<InputError>([&] { Data(job, token_model(100)); });
  };
  const at::Tensor tokens = at::zeros({2, 4}, at::kLong);
  EXPECT_THAT(refusal({{"tokens", tokens}}), HasSubstr("has no tensor target"));
  EXPECT_THAT(refusal({{"tokens", at::zeros({2, 5}, at::kLong)}, {"target", tokens}}),
              HasSubstr("tokens: is int64 [samples, 5], but the model takes int64 [samples, 4]"));
  EXPECT_THAT(refusal({{"tokens", at::zeros({2, 4})}, {"target", tokens}}),
              HasSubstr("is float32 [samples, 4], but the model takes int64"));
  EXPECT_THAT(refusal({{"tokens", tokens}, {"target", at::zeros({3, 4}, at::kLong)}}),
              HasSubstr("has 3 samples, tokens has 2"));
  EXPECT_THAT(refusal({{"tokens", at::zeros({0, 4}, at::kLong)}, {"target", tokens}}),
              HasSubstr("holds no samples"));
}

}  // namespace
}  // namespace penstock
