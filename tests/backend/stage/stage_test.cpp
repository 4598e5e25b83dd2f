// Guarantees of a stage beside its gradients: buffers, order, messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/record_function.h>
#include <torch/library.h>

#include <functional>
#include <memory>
#include <set>

#include "backend/device/memory.hpp"
#include "backend/device/out_of_memory.hpp"
#include "backend/stage/make_stage.hpp"
#include "base/error.hpp"
#include "tests/backend/stage/driver.hpp"
#include "tests/backend/stage/graph_builder.hpp"
#include "tests/backend/stage/tower.hpp"
#include "tests/backend/support.hpp"

namespace penstock::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Stage, UpdatesABufferOncePerMicrobatchAndKeepsWhatAutogradSaved) {
  GraphBuilder b;
  const ValueId x = b.input("x", DType::float64, {Expression::batch(), 3});
  const ValueId mean = b.buffer("mean", at::zeros({3}, at::kDouble));
  const ValueId w = b.parameter("w", numbers("w", {3}, at::kDouble));
  const ValueId scaled =
      b.one("aten::mul.Tensor", {{"self", ref(x)}, {"other", ref(w)}}, DType::float64);
  const ValueId out =
      b.one("aten::mul.Tensor", {{"self", ref(scaled)}, {"other", ref(mean)}}, DType::float64);
  const ValueId next =
      b.one("aten::add.Scalar", {{"self", ref(mean)}, {"other", int64_t{1}}}, DType::float64);
  b.update(mean, next);
  const Graph graph = b.finish({out});
  Batch batch{.size = 2};
  for (int m = 0; m < 3; ++m) {
    batch.inputs.push_back({{x, numbers("x" + std::to_string(m), {2, 3}, at::kDouble)}});
    batch.targets.emplace_back();
  }
  const StepOutcome expected = reference_step(graph, b.tensors, batch, Loss::output);
  StageRow row(graph, b.tensors, {0}, Loss::output);
  // All forwards first, as GPipe does.
  for (int m = 0; m < 3; ++m) row.forward(batch, m);
  for (int m = 0; m < 3; ++m) row.backward(m, Backward::whole);
  const int weight = graph.values[static_cast<size_t>(w)].tensor;
  const int buffer = graph.values[static_cast<size_t>(mean)].tensor;
  EXPECT_TRUE(at::allclose(row.store(0).gradient(weight), expected.gradients.at(weight), 1e-12));
  EXPECT_TRUE(at::equal(row.store(0).tensor(buffer), at::full({3}, 3, at::kDouble)));
}

std::set<std::string> called;  // of `products_in`

/// The products of matrices that `action` calls.
std::set<std::string> products_in(const std::function<void()>& action) {
  called.clear();
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        const std::string name = function.name();
        if (name.ends_with("mm")) called.insert(name);
        return nullptr;
      }));
  action();
  at::removeCallback(handle);
  return called;
}

TEST(Stage, ComputesWhatItDoesNotRecordWithTheSameKernels) {
  GraphBuilder b;
  const ValueId x = b.input("x", DType::float32, {Expression::batch(), 6, kWidth});
  const ValueId strided =
      b.one("aten::transpose.int", {{"self", ref(x)}, {"dim0", int64_t{0}}, {"dim1", int64_t{1}}});
  const Graph graph = b.finish({linear(b, "layer", strided, kWidth, kWidth)});
  StageRow row(graph, b.tensors, {0}, Loss::output);
  const Values inputs{{x, numbers("x", {4, 6, kWidth})}};
  const Batch batch{.inputs = {inputs, inputs}, .targets = {{}, {}}, .size = 4};
  const auto recorded = products_in([&] { row.forward(batch, 0); });
  EXPECT_FALSE(recorded.empty());
  EXPECT_EQ(products_in([&] { row.forward(batch, 1, false); }), recorded);
}

TEST(Stage, SentValuesAreContiguousAndOnTheirOwn) {
  GraphBuilder b;
  const ValueId x = b.input("x", DType::float32, {Expression::batch(), 6});
  const ValueId h = linear(b, "a", x, 6, 6);
  const ValueId t = b.one("aten::t", {{"self", ref(h)}});
  const ValueId end = b.one("aten::mm", {{"self", ref(h)}, {"mat2", ref(t)}});
  const Graph graph = b.finish({end});
  const Analysis analysis = analyse(graph);
  const Slicing slicing = slice(graph, analysis, {0, 0, 1}, 2);
  TensorStore store(b.tensors);
  const auto stage = make_stage(graph, analysis, slicing, 0, store, Loss::output);
  const Stage::Forward forward =
      stage->forward(0, {{x, numbers("x", {4, 6})}}, std::nullopt, {.batch = 4});
  for (const auto& [value, tensor] : forward.sent) EXPECT_TRUE(tensor.is_contiguous());
  EXPECT_TRUE(at::equal(forward.sent.at(h).t(), forward.sent.at(t)));
}

TEST(Stage, RefusesInputsOfAnotherShapeOrTypeNamingBoth) {
  GraphBuilder b;
  const Graph graph = tower(b, 1);
  StageRow row(graph, b.tensors, {0}, Loss::output);
  Batch batch{
      .inputs = {{{graph.inputs[0], at::zeros({kRows, 5})}}}, .targets = {{}}, .size = kRows};
  EXPECT_THROW(row.forward(batch, 0), InputError);
  EXPECT_THAT(message_of<std::exception>([&] { row.forward(batch, 0); }),
              AllOf(HasSubstr("`x`"), HasSubstr("[32, 5]"), HasSubstr("[32, 64]")));
  batch.inputs[0] = {{graph.inputs[0], at::zeros({kRows, kWidth}, at::kLong)}};
  EXPECT_THAT(message_of<std::exception>([&] { row.forward(batch, 0); }), HasSubstr("Long"));
}

TEST(Stage, RefusesALossThatNothingTrainableReaches) {
  GraphBuilder b;
  const ValueId x = b.input("x", DType::float32, {Expression::batch(), 6});
  const ValueId end = b.one("aten::tanh", {{"self", ref(x)}});
  const Graph graph = b.finish({end});
  StageRow row(graph, {}, {0}, Loss::output);
  const Batch batch{.inputs = {{{x, at::zeros({4, 6})}}}, .targets = {{}}, .size = 4};
  EXPECT_THAT(message_of<std::exception>([&] { row.forward(batch, 0); }),
              AllOf(HasSubstr("tanh_0"), HasSubstr("trainable")));
  EXPECT_EQ(row.forward(batch, 0, /*training=*/false), 0);
}

TEST(Stage, AFailedForwardLeavesNothingBehind) {
  GraphBuilder b;
  const ValueId x = b.input("x", DType::float32, {Expression::batch(), 6});
  const ValueId h = linear(b, "a", x, 6, 6);
  const ValueId end = b.one("aten::mm", {{"self", ref(h)}, {"mat2", ref(h)}});
  const Graph graph = b.finish({end});
  StageRow row(graph, b.tensors, {0}, Loss::output);
  const Batch wrong{.inputs = {{{x, at::zeros({4, 6})}}}, .targets = {{}}, .size = 4};
  const Batch right{.inputs = {{{x, numbers("x", {6, 6})}}}, .targets = {{}}, .size = 6};
  const int64_t before = memory::held_bytes();
  EXPECT_THAT(message_of<std::exception>([&] { row.forward(wrong, 0); }),
              HasSubstr("aten::mm (mm_1) in layer1"));
  EXPECT_EQ(memory::held_bytes(), before);
  row.forward(right, 0);
  row.backward(0, Backward::split);
  EXPECT_EQ(memory::held_bytes() - before, (36 + 6) * 4);  // the gradients
}

at::Tensor full_in_forward(const at::Tensor& /*x*/) {
  C10_THROW_ERROR(OutOfMemoryError, "there are 2 GiB and no more");
}
at::Tensor full_in_backward(const at::Tensor& x) {
  at::Tensor y = x * 2;
  if (y.requires_grad()) {
    y.register_hook([](const at::Tensor& /*gradient*/) -> at::Tensor {
      C10_THROW_ERROR(OutOfMemoryError, "there are 2 GiB and no more");
    });
  }
  return y;
}

TORCH_LIBRARY(penstock_test, library) {
  library.def("full_in_forward(Tensor x) -> Tensor", full_in_forward);
  library.def("full_in_backward(Tensor x) -> Tensor", full_in_backward);
}

TEST(Stage, SaysWhenThereIsNoMemory) {
  for (const std::string name : {"full_in_forward", "full_in_backward"}) {
    GraphBuilder b;
    const ValueId x = b.input("x", DType::float32, {Expression::batch(), 6});
    const ValueId h = linear(b, "a", x, 6, 6);
    const Graph graph = b.finish({b.one("penstock_test::" + name, {{"x", ref(h)}})});
    StageRow row(graph, b.tensors, {0}, Loss::output);
    const Batch batch{.inputs = {{{x, numbers("x", {6, 6})}}}, .targets = {{}}, .size = 6};
    EXPECT_THAT(message_of<OutOfMemory>([&] {
                  row.forward(batch, 0);
                  row.backward(0, Backward::whole);
                }),
                HasSubstr("there are 2 GiB and no more"))
        << name;
  }
}

TEST(Stage, RefusesActionsOutOfOrder) {
  GraphBuilder b;
  const Graph graph = tower(b, 1);
  StageRow row(graph, b.tensors, {0}, Loss::output);
  const Batch batch = tower_batch(graph, 1);
  EXPECT_THROW(row.stage(0).backward(0, {}), std::logic_error);
  row.forward(batch, 0);
  EXPECT_THROW(row.forward(batch, 0), std::logic_error);
  EXPECT_THROW(row.stage(0).backward_weight(0), std::logic_error);
  row.stage(0).backward_input(0, {});
  EXPECT_THROW(row.stage(0).backward(0, {}), std::logic_error);
  EXPECT_THROW(row.stage(0).backward_input(0, {}), std::logic_error);
  row.stage(0).backward_weight(0);
}

}  // namespace
}  // namespace penstock::test
