#include "tests/backend/stage/driver.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "backend/stage/make_stage.hpp"
#include "base/error.hpp"

namespace penstock::test {

at::Device test_device() {
  const char* name = std::getenv("PENSTOCK_TEST_DEVICE");
  return name != nullptr && std::string(name) == "cuda" ? at::Device(at::kCUDA, 0) : at::kCPU;
}

at::Tensor on_test_device(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.to(test_device()) : tensor;
}

std::map<int, at::Tensor> on_test_device(const std::map<int, at::Tensor>& tensors) {
  std::map<int, at::Tensor> moved;
  for (const auto& [index, tensor] : tensors) moved[index] = on_test_device(tensor);
  return moved;
}

StageRow::StageRow(const Graph& graph, const std::map<int, at::Tensor>& tensors,
                   const std::vector<OperatorId>& begins, Loss loss, bool recompute)
    : graph_(graph),
      analysis_(analyse(graph)),
      slicing_(slice(graph, analysis_, interval_stages(graph, begins),
                     static_cast<int>(begins.size()))) {
  const size_t operators = graph.operators.size();
  for (size_t s = 0; s < begins.size(); ++s) {
    std::map<int, at::Tensor> own;
    for (const int index : slicing_.stages[s].tensors)
      own[index] = on_test_device(tensors.at(index).clone());
    stores_.push_back(std::make_unique<TensorStore>(own, test_device()));
    if (recompute) slicing_.stages[s].recomputed = {{0, static_cast<OperatorId>(operators)}};
    stages_.push_back(
        make_stage(graph, analysis_, slicing_, static_cast<int>(s), *stores_.back(), loss));
  }
}

double StageRow::forward(const Batch& batch, int microbatch, bool training) {
  const auto m = static_cast<size_t>(microbatch);
  StepContext context;
  context.random = {.seed = 7, .step = 3, .microbatch = microbatch};
  context.batch = batch.size;
  context.loss_scale = scale_ = 1.0 / static_cast<double>(batch.inputs.size());
  context.training = training;
  Values values = on_test_device(batch.inputs[m]);
  const at::Tensor target = on_test_device(batch.targets[m]);
  double loss = 0;
  outputs.clear();
  for (auto& stage : stages_) {
    Stage::Forward result = stage->forward(microbatch, values, target, context);
    for (auto& [value, tensor] : result.sent) {
      EXPECT_TRUE(tensor.is_contiguous() && !tensor.requires_grad());
      values[value] = std::move(tensor);
    }
    outputs.merge(result.outputs);
    if (result.loss) loss = result.loss->item().toDouble();
  }
  return loss;
}

/// The gradients that later stages returned for the values that `stage` sent, added in their order.
Values StageRow::gradients_for(int stage, const std::map<int, Values>& returned) const {
  Values sums;
  for (const StageEdge& edge : slicing_.edges) {
    if (edge.producer != stage) continue;
    for (const Crossing& crossing : edge.values) {
      if (!crossing.carries_gradient) continue;
      const at::Tensor& gradient = returned.at(edge.consumer).at(crossing.value);
      at::Tensor& sum = sums[crossing.value];
      sum = sum.defined() ? sum + gradient : gradient;
    }
  }
  return sums;
}

void StageRow::backward(int microbatch, Backward backward) {
  std::map<int, Values> returned;
  for (int s = static_cast<int>(stages_.size()) - 1; s >= 0; --s) {
    Stage& own = stage(static_cast<size_t>(s));
    const Values gradients = gradients_for(s, returned);
    returned[s] = backward == Backward::whole ? own.backward(microbatch, gradients)
                                              : own.backward_input(microbatch, gradients);
  }
  if (backward == Backward::whole) return;
  for (auto& own : stages_) own->backward_weight(microbatch);
}

StepOutcome StageRow::step(const Batch& batch, Backward kind, int ahead) {
  std::vector<double> losses;
  for (auto& store : stores_) store->clear_gradients();
  const auto count = static_cast<int>(batch.inputs.size());
  for (int m = 0; m < count + ahead; ++m) {
    if (m < count) losses.push_back(forward(batch, m));
    if (m >= ahead) backward(m - ahead, kind);
  }
  for (auto& stage : stages_) stage->finish_step();
  StepOutcome outcome = collect();
  outcome.losses = losses;
  return outcome;
}

StepOutcome StageRow::collect() {
  StepOutcome outcome;
  for (auto& store : stores_) {
    for (const int index : store->indices()) {
      const StoredTensor& stored = graph_.tensors[static_cast<size_t>(index)];
      if (stored.kind == StoredTensor::Kind::buffer) outcome.buffers[index] = store->tensor(index);
      const at::Tensor& gradient = store->gradient(index);
      if (!gradient.defined()) continue;
      at::Tensor& sum = outcome.gradients[index];
      sum = sum.defined() ? sum + gradient : gradient.clone();
    }
  }
  return outcome;
}

std::map<int, at::Tensor> clones(const std::map<int, at::Tensor>& tensors) {
  std::map<int, at::Tensor> result;
  for (const auto& [index, tensor] : tensors) result[index] = tensor.clone();
  return result;
}

namespace {

bool may_cut(const Graph& graph, const Analysis& analysis, OperatorId position) {
  try {
    slice(graph, analysis, interval_stages(graph, {0, position}), 2);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

std::vector<OperatorId> even_begins(const Graph& graph, int stages) {
  const Analysis analysis = analyse(graph);
  const auto count = static_cast<int>(graph.operators.size());
  std::vector<OperatorId> begins{0};
  for (int s = 1; s < stages; ++s) {
    int position = std::max(s * count / stages, begins.back() + 1);
    while (position < count && !may_cut(graph, analysis, position)) ++position;
    if (position < count) begins.push_back(position);
  }
  return begins;
}

void expect_close(const StepOutcome& actual, const StepOutcome& expected, double tolerance,
                  const Graph& graph) {
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  for (size_t m = 0; m < expected.losses.size(); ++m) {
    EXPECT_NEAR(actual.losses[m], expected.losses[m], tolerance * std::abs(expected.losses[m]));
  }
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  double square = 0;
  for (const auto& [index, gradient] : expected.gradients) {
    square += std::pow(gradient.to(at::kDouble).norm().item<double>(), 2);
  }
  for (const auto& [index, gradient] : expected.gradients) {
    ASSERT_TRUE(actual.gradients.contains(index)) << graph.tensors[static_cast<size_t>(index)].name;
    const at::Tensor wanted = gradient.to(at::kDouble);
    const double norm = std::max(wanted.norm().item<double>(), 1e-5 * std::sqrt(square));
    const double difference =
        (actual.gradients.at(index).to(at::kDouble) - wanted).norm().item<double>();
    EXPECT_LE(difference, tolerance * norm) << graph.tensors[static_cast<size_t>(index)].name;
  }
}

namespace {

bool close(const at::Tensor& found, const at::Tensor& gradient) {
  const double tolerance = gradient.scalar_type() == at::kDouble ? 1e-10 : 1e-5;
  return (found - gradient).norm().item<double>() <= tolerance * gradient.norm().item<double>();
}

}  // namespace

void expect_identical_gradients(const StepOutcome& actual, const StepOutcome& expected,
                                const Graph& graph) {
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (const auto& [index, gradient] : expected.gradients) {
    ASSERT_TRUE(actual.gradients.contains(index));
    const at::Tensor& found = actual.gradients.at(index);
    EXPECT_TRUE(test_device().is_cpu() ? at::equal(found, gradient) : close(found, gradient))
        << graph.tensors[static_cast<size_t>(index)].name;
  }
}

}  // namespace penstock::test
