// The buffers that a model updates in its forwards, as they were: for forwards that do not count.
#pragma once

#include <map>

#include "backend/executor/rank.hpp"

namespace penstock {

class KeptBuffers {
 public:
  /// Copies those that the store has; it outlives this.
  KeptBuffers(const Graph& graph, TensorStore& store);
  /// Makes them what they were.
  void restore();

 private:
  TensorStore& store_;
  std::map<int, at::Tensor> copies_;  // by index in Graph::tensors
};

}  // namespace penstock
