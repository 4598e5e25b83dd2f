// FLOPs and bytes by hand.
#include "graph/operators/flops.hpp"

#include <gtest/gtest.h>

#include "tests/graph/build_graph.hpp"

namespace penstock {
namespace {

using testing::batch;
using testing::GraphBuilder;

double flops(const GraphBuilder& b, int64_t samples) {
  return forward_flops(b.graph, b.graph.operators.back(), samples);
}
int64_t bytes(const GraphBuilder& b, int64_t samples) {
  return forward_bytes(b.graph, b.graph.operators.back(), samples);
}

TEST(Flops, Linear) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 5, 8});
  const auto w = b.parameter("w", {3, 8}), bias = b.parameter("b", {3});
  b.op("aten::linear", {x, w, bias}, {batch, 5, 3});
  b.named({"input", "weight", "bias"});
  EXPECT_EQ(flops(b, 2), 2 * 5 * 3 * (2 * 8 + 1));
  EXPECT_EQ(bytes(b, 2), 4 * (2 * 5 * 8 + 3 * 8 + 3 + 2 * 5 * 3));
  b.op("aten::linear", {x, w}, {batch, 5, 3});
  b.named({"input", "weight"});
  EXPECT_EQ(flops(b, 2), 2 * 5 * 3 * 2 * 8);
}

TEST(Flops, MatrixProducts) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4, 6}), y = b.input("y", {batch, 6, 5});
  b.op("aten::bmm", {x, y}, {batch, 4, 5});
  b.named({"self", "mat2"});
  EXPECT_EQ(flops(b, 3), 2 * 3 * 4 * 5 * 6);
  const auto w = b.parameter("w", {4, 6}), v = b.parameter("v", {6, 5}), c = b.parameter("c", {5});
  b.op("aten::addmm", {c, w, v}, {4, 5});
  b.named({"self", "mat1", "mat2"});
  EXPECT_EQ(flops(b, 3), 2 * 4 * 5 * 6 + 2 * 4 * 5);
}

TEST(Flops, Convolutions) {
  GraphBuilder b;
  const auto image = b.input("image", {batch, 6, 10, 10});
  const auto w = b.parameter("w", {8, 3, 3, 3}), bias = b.parameter("b", {8});  // two groups
  b.op("aten::conv2d", {image, w, bias}, {batch, 8, 10, 10});
  b.named({"input", "weight", "bias"});
  EXPECT_EQ(flops(b, 2), 2 * 8 * 100 * (2 * 3 * 9 + 1));
  const auto up = b.parameter("up", {6, 4, 2, 2});
  b.op("aten::convolution", {image, up}, {batch, 4, 20, 20});
  b.named({"input", "weight"}, {{"transposed", true}});
  EXPECT_EQ(flops(b, 2), 2.0 * (2 * 6 * 100) * (4 * 4));
}

TEST(Flops, Attention) {
  GraphBuilder b;
  const auto q = b.input("q", {batch, 2, 7, 8}), k = b.input("k", {batch, 2, 9, 8});
  b.op("aten::scaled_dot_product_attention", {q, k, k}, {batch, 2, 7, 8});
  b.named({"query", "key", "value"});
  EXPECT_EQ(flops(b, 3), 4 * 3 * 2 * 7 * 9 * 8);  // 4*B*H*Tq*Tk*D
}

TEST(Flops, CausalAttentionCountsWhatItSees) {
  for (const auto& [queries, keys] : {std::pair{7, 7}, {7, 9}, {9, 7}, {1, 1}}) {
    GraphBuilder b;
    const auto q = b.input("q", {batch, 2, queries, 8}), k = b.input("k", {batch, 2, keys, 8});
    b.op("aten::scaled_dot_product_attention", {q, k, k}, {batch, 2, queries, 8});
    b.named({"query", "key", "value"}, {{"is_causal", true}});
    double seen = 0;
    for (int query = 0; query < queries; ++query) seen += std::min(query + 1, keys);
    EXPECT_DOUBLE_EQ(flops(b, 3), 4 * 3 * 2 * seen * 8)
        << queries << " queries, " << keys << " keys";
  }
}

TEST(Flops, Recurrent) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 6, 8});
  const auto wi = b.parameter("wi", {16, 8}), wh = b.parameter("wh", {16, 4}),
             c = b.parameter("c", {16});
  b.ops("aten::lstm", {x}, {{batch, 6, 4}, {1, batch, 4}, {1, batch, 4}});
  b.named({"input"}, {{"params", TensorList{{wi, wh, c, c}}}});
  EXPECT_EQ(flops(b, 2), 2 * (2 * 6) * (16 * 8 + 16 * 4) + 2 * 6 * 4);
}

TEST(Flops, ElementsViewsAndLookups) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4});
  const auto sum = b.op("aten::add", {x, x}, {batch, 4});
  EXPECT_EQ(flops(b, 3), 12);
  EXPECT_EQ(bytes(b, 3), 2 * 12 * 4);  // x once
  b.op("aten::view", {sum}, {batch, 2, 2});
  EXPECT_EQ(flops(b, 3), 0);
  EXPECT_EQ(bytes(b, 3), 0);
  b.op("aten::embedding", {b.parameter("w", {1000, 4}), x}, {batch, 4, 4});
  EXPECT_EQ(flops(b, 3), 0);
  EXPECT_EQ(bytes(b, 3), (2 * 3 * 4 * 4 + 3 * 4) * 4);  // rows read and written, indices
  b.op("mine::operator", {x}, {batch, 4});
  EXPECT_EQ(flops(b, 3), 12);
}

}  // namespace
}  // namespace penstock
