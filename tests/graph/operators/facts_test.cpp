// Facts about operators that decide what is sent, differentiated or refused.
#include "graph/operators/facts.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

Operator make(const std::string& target, std::vector<Argument> arguments = {},
              const std::string& overload = "") {
  Operator op;
  op.target = target;
  op.overload = overload;
  op.arguments = std::move(arguments);
  return op;
}

TEST(Facts, Views) {
  for (const char* view : {"view", "transpose", "permute", "expand", "select", "t", "unsqueeze",
                           "split_with_sizes", "detach", "slice", "unbind"})
    EXPECT_TRUE(is_view(make(std::string("aten::") + view))) << view;
  for (const char* copy : {"clone", "linear", "cat", "_to_copy", "contiguous", "relu"})
    EXPECT_FALSE(is_view(make(std::string("aten::") + copy))) << copy;
  EXPECT_FALSE(is_view(make("mine::view")));
}

TEST(Facts, DropoutIsRandomOnlyWhereItDrops) {
  EXPECT_TRUE(is_random(make("aten::native_dropout", {{"p", 0.1}, {"train", true}})));
  EXPECT_TRUE(is_random(make("aten::dropout", {{"p", 0.1}, {"train", true}})));
  EXPECT_FALSE(is_random(make("aten::dropout", {{"p", 0.0}, {"train", true}})));
  EXPECT_FALSE(is_random(make("aten::dropout", {{"p", int64_t{0}}, {"train", true}})));
  EXPECT_FALSE(is_random(make("aten::native_dropout", {{"p", 0.1}, {"train", false}})));
}

TEST(Facts, DropoutThatDropsNothingGivesItsInput) {
  EXPECT_TRUE(is_inactive_dropout(make("aten::dropout", {{"p", 0.0}, {"train", true}})));
  EXPECT_TRUE(is_inactive_dropout(make("aten::alpha_dropout", {{"p", 0.1}, {"train", false}})));
  EXPECT_FALSE(is_inactive_dropout(make("aten::dropout", {{"p", 0.1}, {"train", true}})));
  EXPECT_FALSE(is_inactive_dropout(make("aten::native_dropout", {{"train", false}})));  // copies
  EXPECT_FALSE(is_inactive_dropout(make("aten::contiguous")));
}

TEST(Facts, SomeOperatorsGiveAViewOrACopy) {
  for (const char* either : {"reshape", "flatten", "contiguous", "to"})
    EXPECT_TRUE(may_be_view(make(std::string("aten::") + either))) << either;
  for (const char* neither : {"view", "clone", "unknown"})
    EXPECT_FALSE(may_be_view(make(std::string("aten::") + neither))) << neither;
  EXPECT_FALSE(may_be_view(make("aten::dropout", {{"p", 0.1}})));
}

TEST(Facts, AttentionIsRandomWithDropout) {
  EXPECT_TRUE(is_random(make("aten::scaled_dot_product_attention", {{"dropout_p", 0.1}})));
  EXPECT_FALSE(is_random(make("aten::scaled_dot_product_attention")));
  EXPECT_TRUE(is_random(make("aten::randn")));
  EXPECT_TRUE(is_random(make("aten::lstm", {{"dropout", 0.5}, {"train", true}}, "input")));
  EXPECT_FALSE(is_random(make("aten::lstm", {{"dropout", 0.0}, {"train", true}}, "input")));
  EXPECT_FALSE(is_random(make("aten::linear")));
}

TEST(Facts, GradientsStop) {
  EXPECT_TRUE(stops_gradient(make("aten::detach")));
  EXPECT_TRUE(stops_gradient(make("aten::zeros_like")));
  EXPECT_FALSE(stops_gradient(make("aten::linear")));
  const Operator norm = make("aten::_native_batch_norm_legit_functional");
  EXPECT_FALSE(stops_gradient(norm, 0));
  EXPECT_TRUE(stops_gradient(norm, 3));  // the new running mean
  EXPECT_FALSE(stops_gradient(make("aten::lstm", {}, "input"), 1));
}

TEST(Facts, WritesToInputs) {
  EXPECT_TRUE(is_mutating(make("aten::relu_")));
  EXPECT_TRUE(is_mutating(make("aten::add_", {}, "Tensor")));
  EXPECT_TRUE(is_mutating(make("aten::add", {}, "out")));
  EXPECT_TRUE(is_mutating(make("aten::__iadd__", {}, "Tensor")));
  EXPECT_FALSE(is_mutating(make("aten::__and__", {}, "Tensor")));
  EXPECT_FALSE(is_mutating(make("aten::linear")));
}

TEST(Facts, BatchNormWritesUnlessItEvaluates) {
  const Argument mean{"running_mean", TensorRef{0}};
  EXPECT_TRUE(is_mutating(make("aten::batch_norm", {mean, {"training", true}})));
  EXPECT_FALSE(is_mutating(make("aten::batch_norm", {mean, {"training", false}})));
  EXPECT_FALSE(is_mutating(make("aten::batch_norm", {{"training", true}})));
  EXPECT_FALSE(is_mutating(make("aten::_native_batch_norm_legit_functional", {mean})));
}

TEST(Facts, NamesAndArguments) {
  EXPECT_EQ(full_name(make("aten::add", {}, "Tensor")), "aten::add.Tensor");
  EXPECT_EQ(full_name(make("aten::linear")), "aten::linear");
  const Operator op = make("aten::x", {{"p", 0.5}, {"flag", true}});
  EXPECT_EQ(argument(op, "missing"), nullptr);
  EXPECT_EQ(number(op, "p", 1), 0.5);
  EXPECT_EQ(number(op, "missing", 1), 1);
  EXPECT_TRUE(flag(op, "flag", false));
  EXPECT_TRUE(is_assertion(make("aten::_assert_tensor_metadata")));
}

}  // namespace
}  // namespace penstock
