#include "pipeline/layers/layer_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;

constexpr const char* table_file = "/tables/layers.yaml";

LayerTable parsed(const std::string& keys) {
  return parse_layers("penstock: layers\nglobal_batch: 8\n" + keys, table_file);
}

/// Rows at microbatch 2.
LayerTable table(const std::string& rows) { return parsed("microbatch: 2\nlayers:\n" + rows); }

std::string message_of(const std::string& rows) {
  try {
    table(rows);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(LayerTable, ReadsEveryKey) {
  const LayerTable read = table(
      "  - {name: embedding, forward: 1ms, backward: 2ms, static: 3GB, gradient: 1GB}\n"
      "  - {name: block, count: 3, forward: 5ms, backward: 13ms, saved: 9KiB, output: 5B,\n"
      "     recompute: [{name: full, time: 5ms, saved: 1KiB}, {name: part, time: 1us, saved: 8KiB, "
      "working: 3B}]}\n");
  EXPECT_EQ(read.global_batch, 8);
  ASSERT_EQ(read.sizes.size(), 1);
  const std::vector<Layer>& layers = read.sizes[0].layers;
  ASSERT_EQ(layers.size(), 4);
  EXPECT_EQ(layers[0].name, "embedding");
  EXPECT_EQ(layers[0].static_bytes, 3'000'000'000);
  EXPECT_EQ(layers[0].gradient_bytes, 1'000'000'000);
  EXPECT_EQ(layers[3].name, "block.2");
  EXPECT_DOUBLE_EQ(layers[3].forward_s, 0.005);
  EXPECT_FALSE(layers[3].gradient_bytes);
  EXPECT_EQ(layers[2].output_bytes, 4);  // as large for each of two samples
  EXPECT_EQ(layers[3].output_bytes, 0);  // goes nowhere
  const std::vector<RecomputeChoice> choices = {{"full", 0.005, 8 * 1024, 8 * 1024},
                                                {"part", 1e-6, 1024, 3}};
  EXPECT_EQ(layers[3].recompute, choices);
}

TEST(LayerTable, PartsOfTheBackwardAddUpUnlessItIsGiven) {
  const std::string parts = "backward_input: 2ms, backward_weight: 1ms";
  const LayerTable read = table("  - {name: a, forward: 1ms, " + parts + "}\n" +
                                "  - {name: b, forward: 1ms, backward: 4ms, " + parts + "}\n");
  EXPECT_DOUBLE_EQ(read.sizes[0].layers[0].backward_s, 0.003);
  EXPECT_DOUBLE_EQ(read.sizes[0].layers[1].backward_s, 0.004);
}

TEST(LayerTable, SizesAreReadInAnyOrder) {
  const LayerTable read = parsed(
      "sizes:\n"
      "  - {microbatch: 4, layers: [{name: a, forward: 3ms, backward: 5ms, output: 16B}]}\n"
      "  - {microbatch: 1, layers: [{name: a, forward: 1ms, backward: 2ms, output: 4B}]}\n");
  ASSERT_EQ(read.sizes.size(), 2);
  EXPECT_EQ(read.sizes[0].microbatch, 1);
  EXPECT_EQ(read.sizes[1].microbatch, 4);
}

TEST(LayerTable, WhatItWritesReadsBackTheSame) {
  LayerTable read = parsed(
      "sizes:\n"
      "  - microbatch: 1\n"
      "    layers:\n"
      "      - {name: in, forward: 0.1, backward_input: 0.1, backward_weight: 0.7, static: 9B, "
      "gradient: 4B}\n"
      "      - {name: block, count: 12, forward: 1ms, backward_input: 1ms, backward_weight: 1ms, "
      "saved: 7B, output: 3B, recompute: [{name: full, time: 1ms, saved: 1B, working: 2B}]}\n"
      "      - {name: tail.0, forward: 0, backward_input: 0, backward_weight: 0}\n");
  LayerTable again = parse_layers(to_yaml(read), table_file);
  EXPECT_EQ(rows(read.sizes[0].layers).size(), 3);
  read.sha256 = again.sha256;
  EXPECT_EQ(again, read);
}

TEST(LayerTable, MistakesAreNamedWithPlaceAndCure) {
  const std::string costs = "forward: 1ms, backward: 2ms";
  EXPECT_THAT(message_of("  - {name: a, " + costs + ", sved: 1B}\n"), HasSubstr("sved"));
  EXPECT_THAT(message_of("  - {name: a, forward: 1ms}\n"), HasSubstr("backward"));
  EXPECT_THAT(message_of("  - {name: a, forward: 1MB, backward: 2ms}\n"), HasSubstr("1MB"));
  EXPECT_THAT(message_of("  - {name: a, " + costs + ", count: 0}\n"), HasSubstr("1..2000"));
  EXPECT_THAT(message_of("  - {name: a, count: 1500, " + costs + "}\n  - {name: b, count: 501, " +
                         costs + "}\n"),
              HasSubstr("more than 2000 layers"));
  EXPECT_THAT(message_of("  - {name: a/b, " + costs + "}\n"), HasSubstr("`a/b` is no name"));
  EXPECT_THAT(message_of("  - {name: a, " + costs + "}\n  - {name: a, " + costs + "}\n"),
              HasSubstr("`a` is there twice"));
  EXPECT_THAT(message_of("  []\n"), HasSubstr("the list is empty"));
  EXPECT_THAT(message_of("  - {name: a, " + costs + ", static: 5000000TB}\n"),
              HasSubstr("more than any device has"));
  EXPECT_THAT(message_of("  - {name: a, forward: 0s, backward: 1s}\n"),
              HasSubstr("no forward takes time"));
  EXPECT_THAT(message_of("  - {name: a, " + costs +
                         ", saved: 4B, recompute: [{name: full, time: 1ms, saved: 4B}]}\n"),
              HasSubstr("no less than the layer saves"));
  EXPECT_THAT(message_of("  - {name: a, " + costs +
                         ", saved: 4B, recompute: [{name: x, time: 1ms}, {name: x, time: 2ms}]}\n"),
              HasSubstr("`x` is there twice"));
  EXPECT_THAT(message_of("  - {name: a, " + costs + ", static: 7B, gradient: 4B}\n"),
              HasSubstr("at least twice the gradients"));
  EXPECT_THAT(message_of("  - {name: a, " + costs +
                         "}\n  - {name: b, forward: 0, backward_input: 0, backward_weight: 0}\n"),
              HasSubstr("`b` gives its backward in two parts"));
}

TEST(LayerTable, SizesAreOfTheSameModel) {
  const auto message = [](int microbatch, const std::string& second) {
    const std::string last = ", {name: z, forward: 1, backward: 1}]}\n";
    try {
      parsed(
          "sizes:\n  - {microbatch: 1, layers: [{name: a, forward: 1, backward: 1, output: 4B, "
          "static: 1B}" +
          last + "  - {microbatch: " + std::to_string(microbatch) +
          ", layers: [{forward: 1, backward: 1, " + second + "}" + last);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(1, "name: a, output: 4B, static: 1B"), HasSubstr("1 is there twice"));
  EXPECT_THAT(message(2, "name: b, output: 8B, static: 1B"), HasSubstr("layer 0 is `b`, but `a`"));
  EXPECT_THAT(message(2, "name: a, output: 8B"), HasSubstr("other static bytes"));
  EXPECT_THAT(message(2, "name: a, output: 4B, static: 1B"), HasSubstr("as large for each sample"));
  EXPECT_THAT(message(2, "name: a, output: 8B, static: 1B}, {name: y, forward: 1, backward: 1"),
              HasSubstr("3 layers, but 2 at microbatch 1"));
  EXPECT_EQ(message(2, "name: a, output: 8B, static: 1B"), "");
}

}  // namespace
}  // namespace penstock
