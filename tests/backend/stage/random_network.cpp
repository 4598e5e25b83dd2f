#include "tests/backend/stage/random_network.hpp"

#include <algorithm>
#include <set>

#include "graph/cuts/cuts.hpp"

namespace penstock::test {
namespace {

constexpr int64_t kPositions = 4, kFeatures = 6;
using Shape = std::vector<Expression>;

}  // namespace

RandomNetwork::RandomNetwork(unsigned seed) : random_(seed), seed_(seed) {
  const Shape shape{Expression::batch(), kPositions, kFeatures};
  hidden_.push_back(builder_.input("x", DType::float64, shape));
  ids_ = builder_.input("ids", DType::int64, {Expression::batch(), kPositions});
  hidden_.push_back(projected());
  for (int layers = 4 + below(12); layers > 0; --layers) add_layer();
  hidden_.push_back(joined());
  const ValueId last = projected();  // so that something has a gradient
  graph = builder_.finish({last});
  tensors = builder_.tensors;
}

Batch RandomNetwork::batch(int microbatches) {
  Batch batch{.size = 2 + below(3)};
  for (int m = 0; m < microbatches; ++m) {
    const std::string name = std::to_string(seed_) + "/" + std::to_string(m);
    const std::vector<int64_t> sizes{batch.size, kPositions, kFeatures};
    const at::Tensor numbers_of_ids = numbers("ids" + name, {batch.size, kPositions});
    batch.inputs.push_back(
        {{graph.inputs[0], numbers("x" + name, sizes, at::kDouble)},
         {graph.inputs[1], numbers_of_ids.abs().mul(4).to(at::kLong).clamp(0, kFeatures - 1)}});
    batch.targets.push_back(numbers("target" + name, sizes, at::kDouble));
  }
  return batch;
}

std::vector<OperatorId> RandomNetwork::begins() {
  const std::vector<bool> allowed = allowed_cuts(graph);
  const auto count = static_cast<int>(graph.operators.size());
  std::set<OperatorId> chosen{0};
  for (int cuts = below(5); cuts > 0; --cuts) {
    const OperatorId position = below(count);
    if (allowed[static_cast<size_t>(position)]) chosen.insert(position);
  }
  return {chosen.begin(), chosen.end()};
}

ValueId RandomNetwork::any() {
  const auto count = static_cast<int>(hidden_.size());
  return hidden_[static_cast<size_t>(below(2) == 0 ? count - 1 : below(count))];
}

/// One in three times a parameter of that shape that another operator uses already.
ValueId RandomNetwork::weight(std::vector<int64_t> sizes) {
  std::vector<ValueId> reused;
  for (const auto& [shape, value] : weights_) {
    if (shape == sizes) reused.push_back(value);
  }
  if (!reused.empty() && below(3) == 0) {
    return reused[static_cast<size_t>(below(static_cast<int>(reused.size())))];
  }
  const std::string name = "weight" + std::to_string(weights_.size());
  const ValueId value =
      builder_.parameter(name, numbers(name + "/" + std::to_string(seed_), sizes, at::kDouble));
  weights_.emplace_back(std::move(sizes), value);
  return value;
}

void RandomNetwork::add_layer() {
  using Layer = ValueId (RandomNetwork::*)();
  static constexpr Layer layers[] = {&RandomNetwork::projected,
                                     &RandomNetwork::projected_by_derived,
                                     &RandomNetwork::normalised,
                                     &RandomNetwork::activated,
                                     &RandomNetwork::joined,
                                     &RandomNetwork::attended,
                                     &RandomNetwork::part,
                                     &RandomNetwork::convolved,
                                     &RandomNetwork::masked,
                                     &RandomNetwork::embedded,
                                     &RandomNetwork::looked_up,
                                     &RandomNetwork::without_gradient,
                                     &RandomNetwork::dropped,
                                     &RandomNetwork::flattened,
                                     &RandomNetwork::with_statistics,
                                     &RandomNetwork::shifted_by_constant};
  hidden_.push_back((this->*layers[below(std::size(layers))])());
}

ValueId RandomNetwork::projected() {
  return one("linear", {{"input", ref(any())},
                        {"weight", ref(weight({kFeatures, kFeatures}))},
                        {"bias", ref(weight({kFeatures}))}});
}

/// A chain from the parameter alone: every stage that needs it computes it.
ValueId RandomNetwork::projected_by_derived() {
  const ValueId source = any();
  ValueId derived =
      one("mul.Tensor", {{"self", ref(weight({kFeatures, kFeatures}))}, {"other", 0.5}});
  if (below(2) == 0) derived = one("t", {{"self", ref(derived)}});
  return one("matmul", {{"self", ref(source)}, {"other", ref(derived)}});
}

ValueId RandomNetwork::normalised() {
  return one("layer_norm", {{"input", ref(any())},
                            {"normalized_shape", Shape{kFeatures}},
                            {"weight", ref(weight({kFeatures}))},
                            {"bias", ref(weight({kFeatures}))}});
}

ValueId RandomNetwork::activated() {
  static const std::vector<std::string> kinds{"relu", "gelu", "tanh", "silu"};
  return one(kinds[static_cast<size_t>(below(4))], {{"self", ref(any())}});
}

/// A skip: the mean or the product of any two.
ValueId RandomNetwork::joined() {
  const ValueId a = any(), b = any();
  if (below(3) == 0) {
    const ValueId bounded = one("tanh", {{"self", ref(b)}});
    return one("mul.Tensor", {{"self", ref(a)}, {"other", ref(bounded)}});
  }
  const ValueId sum = one("add.Tensor", {{"self", ref(a)}, {"other", ref(b)}});
  return one("mul.Tensor", {{"self", ref(sum)}, {"other", 0.5}});
}

ValueId RandomNetwork::attended() {
  const ValueId query = any(), key = any();
  const ValueId turned =
      one("transpose.int", {{"self", ref(key)}, {"dim0", int64_t{1}}, {"dim1", int64_t{2}}});
  const ValueId scores = one("matmul", {{"self", ref(query)}, {"other", ref(turned)}});
  const ValueId shares = one("softmax.int", {{"self", ref(scores)}, {"dim", int64_t{-1}}});
  return one("matmul", {{"self", ref(shares)}, {"other", ref(any())}});
}

/// Two values side by side, split again: one of the parts.
ValueId RandomNetwork::part() {
  const TensorList both{{any(), any()}};
  const ValueId wide = one("cat", {{"tensors", both}, {"dim", int64_t{-1}}});
  const auto parts = builder_.op(
      "aten::split_with_sizes",
      {{"self", ref(wide)}, {"split_sizes", Shape{3, kFeatures, 3}}, {"dim", int64_t{-1}}}, 3,
      DType::float64);
  const ValueId outer =
      one("cat", {{"tensors", TensorList{{parts[0], parts[2]}}}, {"dim", int64_t{-1}}});
  if (below(2) == 0) return outer;
  return one("add.Tensor", {{"self", ref(outer)}, {"other", ref(parts[1])}});
}

ValueId RandomNetwork::convolved() {
  const auto turn = [&](ValueId value) {
    return one("transpose.int", {{"self", ref(value)}, {"dim0", int64_t{1}}, {"dim1", int64_t{2}}});
  };
  const ValueId turned = turn(any());
  return turn(one("conv1d", {{"input", ref(turned)},
                             {"weight", ref(weight({kFeatures, kFeatures, 3}))},
                             {"bias", ref(weight({kFeatures}))},
                             {"padding", Shape{1}}}));
}

/// A truth value that another stage may use.
ValueId RandomNetwork::masked() {
  const ValueId above =
      one("gt.Scalar", {{"self", ref(any())}, {"other", int64_t{0}}}, DType::boolean);
  if (below(2) == 0) {
    return one("masked_fill.Scalar", {{"self", ref(any())}, {"mask", ref(above)}, {"value", -0.5}});
  }
  return one("where.self",
             {{"condition", ref(above)}, {"self", ref(any())}, {"other", ref(any())}});
}

ValueId RandomNetwork::embedded() {
  return one("embedding",
             {{"weight", ref(weight({kFeatures, kFeatures}))}, {"indices", ref(ids_)}});
}

/// An integer that another stage may use.
ValueId RandomNetwork::looked_up() {
  const ValueId best = one("argmax", {{"self", ref(any())}, {"dim", int64_t{-1}}}, DType::int64);
  return one("embedding",
             {{"weight", ref(weight({kFeatures, kFeatures}))}, {"indices", ref(best)}});
}

/// A region without gradient, or a value that is detached.
ValueId RandomNetwork::without_gradient() {
  const ValueId source = any(), other = any();
  ValueId still = -1;
  if (below(2) == 0) {
    still = one("detach", {{"self", ref(source)}});
  } else {
    still = one("tanh", {{"self", ref(source)}});
    builder_.graph.operators.back().grad_enabled = false;
  }
  return one("add.Tensor", {{"self", ref(still)}, {"other", ref(other)}});
}

ValueId RandomNetwork::dropped() {
  const double p = below(2) == 0 ? 0.0 : 0.3;
  return one("dropout", {{"input", ref(any())}, {"p", p}, {"train", true}});
}

ValueId RandomNetwork::flattened() {
  const Expression rows = Expression::apply("Mul", {Expression::batch(), kPositions});
  const ValueId flat = one("view", {{"self", ref(any())}, {"size", Shape{rows, kFeatures}}});
  const ValueId product =
      one("mm", {{"self", ref(flat)}, {"mat2", ref(weight({kFeatures, kFeatures}))}});
  return one("view",
             {{"self", ref(product)}, {"size", Shape{Expression::batch(), kPositions, kFeatures}}});
}

/// A constant that each stage computes for itself.
ValueId RandomNetwork::shifted_by_constant() {
  const ValueId full = one("full", {{"size", Shape{Expression::batch(), 1, kFeatures}},
                                    {"fill_value", 0.25},
                                    {"dtype", DType::float64}});
  return one("add.Tensor", {{"self", ref(any())}, {"other", ref(full)}});
}

/// Uses and moves a running mean.
ValueId RandomNetwork::with_statistics() {
  const std::string name = "mean" + std::to_string(buffers_++);
  const ValueId running = builder_.buffer(name, numbers(name, {kFeatures}, at::kDouble));
  const ValueId source = any();
  const ValueId centred = one("sub.Tensor", {{"self", ref(source)}, {"other", ref(running)}});
  const ValueId now = one("mean.dim", {{"self", ref(source)}, {"dim", Shape{0, 1}}});
  const ValueId still = one("detach", {{"self", ref(now)}});
  const ValueId moved =
      one("lerp.Scalar", {{"self", ref(running)}, {"end", ref(still)}, {"weight", 0.1}});
  builder_.update(running, moved);
  return one("mul.Tensor", {{"self", ref(centred)}, {"other", ref(running)}});
}

}  // namespace penstock::test
