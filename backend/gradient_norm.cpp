#include "backend/gradient_norm.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>

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

double squared_norm(TensorStore& store, const std::set<int>& indices) {
  const at::NoGradGuard no_grad;
  double sum = 0;
  for (const int index : indices) {
    const at::Tensor& gradient = store.gradient(index);
    if (!gradient.defined()) continue;
    const double norm = at::linalg_vector_norm(gradient, 2, {}, false, at::kDouble).item<double>();
    sum += norm * norm;
  }
  return sum;
}

void clip_gradients(TensorStore& store, double norm, double most) {
  const at::NoGradGuard no_grad;
  const double factor = most / (norm + kEpsilon);
  if (factor >= 1) return;
  for (const int index : store.indices()) {
    const at::Tensor& gradient = store.gradient(index);
    if (gradient.defined()) gradient.mul_(factor);
  }
}

}  // namespace penstock
