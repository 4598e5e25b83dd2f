// The stored tensors of one rank: parameters with their gradients, buffers, constants.
// Two stages of one rank that use the same parameter share one tensor here.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <set>

#include "graph/pt2.hpp"

namespace penstock {

class TensorStore {
 public:
  /// Loads the tensors `indices` of `graph.tensors` from its file, on `device`, contiguous. Throws
  /// InputError for a model that was exported without weights.
  TensorStore(const Graph& graph, const std::set<int>& indices, at::Device device = at::kCPU);

  const std::set<int>& indices() const { return indices_; }
  at::Tensor& tensor(int index);
  /// Adds to the stored gradient; the first gradient of a step is stored, not added.
  void accumulate(int index, const at::Tensor& gradient);
  /// The stored gradient, undefined if none came since `clear_gradients`.
  at::Tensor& gradient(int index);
  /// The next gradient of each parameter is stored over the old one, whose memory stays.
  void clear_gradients();

 private:
  struct Entry {
    at::Tensor tensor, gradient;
    bool fresh = true;  // no gradient since clear_gradients
  };
  std::set<int> indices_;
  std::map<int, Entry> entries_;
};

}  // namespace penstock
