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
  graph.values[1].tensor = 0;
  graph.tensors = {{.name = "weight", .sizes = {rows, rows}}};
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

/// The bytes of these numbers, little-endian.
template <typename Number>
std::string bytes(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

TEST(Data, BinIsUnsigned16) {
  const test::TemporaryFolder folder;
  const Data data(text_job(folder.write("t.bin", bytes<uint16_t>({1, 65535, 3, 4, 5}))),
                  token_model(65536));
  EXPECT_EQ(numbers(data.read("tokens", 0, 1)), (std::vector<int64_t>{1, 65535, 3, 4}));
  EXPECT_EQ(numbers(data.read("target", 0, 1)), (std::vector<int64_t>{65535, 3, 4, 5}));
}

TEST(Data, BinIsUnsigned32WhereTheJobSaysSo) {
  const test::TemporaryFolder folder;
  Job job = text_job(folder.write("1.bin", bytes<uint32_t>({1, 128255, 3})));
  job.data.push_back(folder.write("2.bin", bytes<uint32_t>({65536, 5})));
  job.token_bytes = 4;
  const Data data(job, token_model(128256));
  EXPECT_EQ(numbers(data.read("tokens", 0, 1)), (std::vector<int64_t>{1, 128255, 3, 65536}));
  EXPECT_EQ(numbers(data.read("target", 0, 1)), (std::vector<int64_t>{128255, 3, 65536, 5}));
}

TEST(Data, TokensThatMayBeWiderAreRefusedUntilTheJobSaysHowWideTheyAre) {
  const test::TemporaryFolder folder;
  std::vector<uint32_t> small(64);
  for (uint32_t i = 0; i < 64; ++i) small[i] = i;
  Job job = text_job(folder.write("t.bin", bytes(small)));
  const auto refusal = [&](int64_t vocabulary) {
    return message_of<InputError>([&] { Data(job, token_model(vocabulary)); });
  };
  EXPECT_THAT(refusal(65537), HasSubstr("65537 tokens, more than the 65536 of a .bin of uint16"));
  EXPECT_THAT(refusal(100), HasSubstr("every second of its first tokens is 0, as if they were"));
  EXPECT_THAT(refusal(100), HasSubstr("`token_bytes: 4` for uint32"));
  for (const int64_t width : {2, 4}) {
    job.token_bytes = width;
    EXPECT_EQ(Data(job, token_model(65537)).read("tokens", 0, 1)[0][1].item<int64_t>(),
              width == 2 ? 0 : 1);
  }
  job = text_job(folder.write("zeros.bin", std::string(256, '\0')));
  EXPECT_EQ(Data(job, token_model(100)).read("tokens", 0, 1).sum().item<int64_t>(), 0);
}

TEST(Data, NamesTheTokenThatTheEmbeddingLacksAndItsPlace) {
  const test::TemporaryFolder folder;
  Job job = text_job(folder.write("1.txt", "aaaab"));
  job.data.push_back(folder.write("2.txt", "bbz\x7e"));
  const Data data(job, token_model(123));
  EXPECT_EQ(data.read("tokens", 0, 2).numel(), 8);
  EXPECT_THAT(message_of<InputError>([&] { data.read("target", 0, 2); }),
              HasSubstr("2.txt: byte 3: target 126 is not in 0..122 or -100"));
  job.data = {folder.write("t.bin", bytes<uint16_t>({1, 2, 3, 4, 5, 200, 7, 8, 9}))};
  EXPECT_THAT(message_of<InputError>([&] { Data(job, token_model(123)).read("tokens", 1, 1); }),
              HasSubstr("t.bin: token 5: tokens 200 is not in 0..122"));
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
              HasSubstr("has 11 bytes, no whole number of tokens of 2"));
  job = text_job(folder.write("odd.bin", "abcdefghij"));
  job.token_bytes = 4;
  EXPECT_THAT(refusal(job), HasSubstr("has 10 bytes, no whole number of tokens of 4"));
  EXPECT_THAT(refusal(text_job(folder.write("empty.txt", ""))), HasSubstr("0 tokens are too few"));
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

TEST(Data, SamplesAreCountedAcrossShards) {
  const test::TemporaryFolder folder;
  const at::Tensor tokens = at::arange(24, at::kLong).reshape({6, 4});
  Job job;
  for (const auto& [name, first, last] :
       {std::tuple("a", 0, 2), std::tuple("b", 2, 3), std::tuple("c", 3, 6)}) {
    job.data.push_back(folder / (std::string(name) + ".safetensors"));
    const at::Tensor part = tokens.slice(0, first, last);
    write_tensors(job.data.back(), {{"tokens", part}, {"target", part + 1}});
  }
  const Data data(job, token_model(100));
  EXPECT_TRUE(data.read("tokens", 0, 6).equal(tokens));
  EXPECT_TRUE(data.read("target", 1, 3).equal(tokens.slice(0, 1, 4) + 1));
  EXPECT_TRUE(data.read("tokens", 5, 2).equal(tokens.index_select(0, at::tensor({5, 0}))));
  const Data narrow(job, token_model(22));
  EXPECT_THAT(message_of<InputError>([&] { narrow.read("tokens", 4, 2); }),
              HasSubstr("c.safetensors: tokens of sample 2: tokens 22 is not in 0..21"));
}

TEST(Data, NamesTheShardThatDiffersFromTheFirst) {
  const test::TemporaryFolder folder;
  const std::string first = folder / "a.safetensors", second = folder / "b.safetensors";
  const at::Tensor tokens = at::zeros({2, 4}, at::kLong);
  write_tensors(first, {{"tokens", tokens}, {"target", tokens}});
  const auto refusal = [&](const NamedTensors& tensors) {
    write_tensors(second, tensors);
    Job job;
    job.data = {first, second};
    return message_of<InputError>([&] { Data(job, token_model(100)); });
  };
  EXPECT_THAT(refusal({{"tokens", at::zeros({2, 5}, at::kLong)}, {"target", tokens}}),
              HasSubstr("b.safetensors: tokens: is int64 [samples, 5], but " + first +
                        " has int64 [samples, 4]"));
  EXPECT_THAT(refusal({{"tokens", tokens}, {"target", tokens.to(at::kInt)}}),
              HasSubstr("b.safetensors: target: is int32 [samples, 4], but " + first));
  EXPECT_THAT(refusal({{"tokens", tokens}}), HasSubstr("b.safetensors: has no tensor target"));
  EXPECT_THAT(refusal({{"tokens", tokens.slice(0, 0, 0)}, {"target", tokens}}),
              HasSubstr("b.safetensors: tokens: holds no samples"));
  EXPECT_THAT(refusal({{"tokens", tokens}, {"target", tokens.slice(0, 0, 1)}}),
              HasSubstr("b.safetensors: target: has 1 samples, tokens has 2"));
}

TEST(Data, ShuffledEpochsHaveTheSameSamplesForInputAndTarget) {
  const test::TemporaryFolder folder;
  const at::Tensor tokens = at::arange(20, at::kLong).reshape({20, 1}).expand({20, 4});
  Job job;
  job.data = {folder / "d.safetensors"};
  write_tensors(job.data[0], {{"tokens", tokens.contiguous()}, {"target", tokens + 1}});
  job.shuffle = true;
  const Data data(job, token_model(100));
  for (const int64_t epoch : {0, 1}) {
    const at::Tensor read = data.read("tokens", 20 * epoch, 20);
    EXPECT_FALSE(read.equal(tokens));
    EXPECT_TRUE(std::get<0>(read.sort(0)).equal(tokens));
    EXPECT_TRUE(data.read("target", 20 * epoch, 20).equal(read + 1));
    EXPECT_TRUE(data.read("tokens", 20 * epoch + 7, 3).equal(read.slice(0, 7, 10)));
  }
  EXPECT_FALSE(data.read("tokens", 0, 20).equal(data.read("tokens", 20, 20)));
  EXPECT_TRUE(Data(job, token_model(100), false).read("tokens", 0, 20).equal(tokens))
      << "forwards alone take samples in order";
}

TEST(Data, WhatFillsUpTheLastBatchDoesNotCount) {
  const test::TemporaryFolder folder;
  Job job = text_job(folder.write("t.txt", "abcdefghijklm"));  // three windows
  job.global_batch = 2;
  job.last_batch = LastBatch::pad;
  const Data data(job, token_model(128));
  EXPECT_TRUE(data.has_ignored_targets());
  EXPECT_EQ(numbers(data.read("target", 2, 3)),
            (std::vector<int64_t>{'j', 'k', 'l', 'm', -100, -100, -100, -100, 'b', 'c', 'd', 'e'}));
  EXPECT_EQ(data.counted_targets(2, 2), 4);
  const at::Tensor filled = data.read("tokens", 3, 1);
  EXPECT_TRUE(filled.equal(data.read("tokens", 0, 1))) << "a sample of the data";
}

TEST(Data, PaddingIsRefusedWhereItWouldCount) {
  const test::TemporaryFolder folder;
  Job job = text_job(folder.write("t.txt", "abcdefghijklm"));
  job.last_batch = LastBatch::pad;
  Graph model = token_model(128);
  model.batch_coupled = true;
  EXPECT_THAT(message_of<InputError>([&] { Data(job, model); }),
              HasSubstr("the samples of a batch influence each other in model.pt2"));
  job.last_batch = LastBatch::drop;
  EXPECT_EQ(numbers(Data(job, model).read("tokens", 0, 1)),
            (std::vector<int64_t>{'a', 'b', 'c', 'd'}));
}

TEST(Data, MadeUpSamplesAreWhatTheModelTakes) {
  Job job;
  job.random_data = true;
  const Data data(job, token_model(100));
  const at::Tensor tokens = data.read("tokens", 5, 40), target = data.read("target", 5, 40);
  EXPECT_EQ(tokens.sizes(), (at::IntArrayRef{40, 4}));
  EXPECT_EQ(target.scalar_type(), at::kLong);
  EXPECT_GE(tokens.min().item<int64_t>(), 0);
  EXPECT_GT(tokens.max().item<int64_t>(), 50);
  EXPECT_FALSE(tokens.equal(target));
  EXPECT_TRUE(data.read("tokens", 7, 2).equal(tokens.slice(0, 2, 4)));
  EXPECT_FALSE(data.has_ignored_targets());
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
