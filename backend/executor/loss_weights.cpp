#include "backend/executor/loss_weights.hpp"

#include <ATen/core/grad_mode.h>

namespace penstock {

LossWeights::LossWeights(const Graph& graph, const std::optional<MeanLoss>& mean, const Data& data,
                         const MatchedWeights* weights)
    : graph_(graph), mean_(mean), data_(data), stored_(graph.values.size()) {
  if (!mean) return;
  for (const OperatorId id : mean->operators)
    operators_.emplace_back(graph, graph.operators[static_cast<size_t>(id)], at::kCPU);
  for (const ValueId id : values_read(graph, *mean)) {
    const int tensor = graph.values[static_cast<size_t>(id)].tensor;
    if (tensor >= 0)
      stored_[static_cast<size_t>(id)] =
          TensorStore(graph, {tensor}, at::kCPU, weights).tensor(tensor);
  }
}

double LossWeights::of(int64_t first, int64_t count) const {
  if (mean_) return of_targets(first, count);
  return static_cast<double>(data_.has_ignored_targets() ? data_.counted_targets(first, count)
                                                         : count);
}

double LossWeights::of_targets(int64_t first, int64_t count) const {
  const at::NoGradGuard no_grad;
  ValueTable values = stored_;
  for (const ValueId id : values_read(graph_, *mean_)) {
    const Value& value = graph_.values[static_cast<size_t>(id)];
    if (value.kind == Value::Kind::user_input)
      values[static_cast<size_t>(id)] = data_.read(value.name, first, count);
  }
  for (const PreparedOperator& op : operators_) op.run(values, count);
  const at::Tensor& target = values[static_cast<size_t>(mean_->target)];
  const at::Tensor counted = target.masked_select(target.ne(mean_->ignored));
  if (!mean_->class_weights) return static_cast<double>(counted.numel());
  const at::Tensor& weights = values[static_cast<size_t>(*mean_->class_weights)];
  return weights.to(at::kDouble).index_select(0, counted).sum().item<double>();
}

}  // namespace penstock
