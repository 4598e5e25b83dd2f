#include "backend/executor/update/gradient_norm.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/stack.h>

namespace penstock {

namespace {

constexpr double kEpsilon = 1e-6;  // PyTorch's

}  // namespace

std::set<int> first_held(const Graph& graph, const Slicing& slicing,
                         const std::vector<int>& rank_of_stage, int rank) {
  std::set<int> seen, held;
  for (size_t stage = 0; stage < slicing.stages.size(); ++stage) {
    for (const int tensor : slicing.stages[stage].tensors) {
      if (!graph.tensors[tensor].requires_grad || !seen.insert(tensor).second) continue;
      if (rank_of_stage[stage] == rank) held.insert(tensor);
    }
  }
  return held;
}

namespace {

std::vector<at::Tensor> gradients_of(TensorStore& store, const std::set<int>& indices,
                                     const TensorParts& parts) {
  std::vector<at::Tensor> gradients;
  for (const int index : indices) {
    if (!store.gradient(index).defined()) continue;
    const at::Tensor gradient = own_part(parts, index, store.gradient(index));
    if (gradient.numel() > 0) gradients.push_back(gradient);
  }
  return gradients;
}

}  // namespace

/// The host waits once for all of them.
double squared_norm(TensorStore& store, const std::set<int>& indices, const TensorParts& parts) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(store, indices, parts);
  if (gradients.empty()) return 0;
  const at::Tensor norms = at::stack(at::_foreach_norm(gradients, 2, at::kDouble)).cpu();
  double sum = 0;
  for (int64_t i = 0; i < norms.numel(); ++i) {
    const double norm = norms[i].item<double>();
    sum += norm * norm;
  }
  return sum;
}

void clip_gradients(TensorStore& store, double norm, double max_norm, const TensorParts& parts) {
  const at::NoGradGuard no_grad;
  const double factor = max_norm / (norm + kEpsilon);
  if (factor >= 1) return;
  const std::vector<at::Tensor> gradients = gradients_of(store, store.indices(), parts);
  if (!gradients.empty()) at::_foreach_mul_(gradients, factor);
}

}  // namespace penstock
