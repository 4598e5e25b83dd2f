// The stored tensors of one rank: parameters with their gradients, buffers, constants.
// Two stages of one rank that use the same parameter share one tensor here.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <set>
#include <vector>

#include "graph/pt2/pt2.hpp"

namespace penstock {

/// Does nothing but `tensor` refer to its memory, and does it cover all of it in row-major order?
/// Then it can be kept instead of copied.
bool exclusively_owned(const at::Tensor& tensor);

/// `sum` += `gradient`; an undefined sum becomes the gradient itself where nobody else holds it,
/// else a copy. Move the gradient in.
void add_gradient(at::Tensor& sum, at::Tensor gradient);

/// Where a view of a parameter lies in it: the same place in its gradient takes the view's
/// gradient.
struct ViewGeometry {
  std::vector<int64_t> sizes, strides;  // in elements
  int64_t offset = 0;                   // in elements, from the parameter's first
};

class TensorStore {
 public:
  /// Loads the tensors `indices` of `graph.tensors` from its file, on `device`, contiguous. Throws
  /// InputError for a model that was exported without weights.
  TensorStore(const Graph& graph, const std::set<int>& indices, at::Device device = at::kCPU);
  /// Holds the given tensors, contiguous (made-up weights, tests).
  explicit TensorStore(const std::map<int, at::Tensor>& tensors);

  /// From now on gradients of bfloat16 tensors are summed in float32. Call it before the first.
  void sum_in_float32() { sum_in_float32_ = true; }
  /// The type in which gradients of that type are summed.
  at::ScalarType sum_type(at::ScalarType type) const;

  /// A checkpoint had this tensor, though it is not trained now: later ones have it too.
  void note_restored(int index) { restored_.insert(index); }
  bool restored(int index) const { return restored_.contains(index); }

  const std::set<int>& indices() const { return indices_; }
  at::Device device() const { return device_; }
  at::Tensor& tensor(int index);
  /// Adds to the stored gradient; the first gradient of a step is stored, not added. A gradient
  /// that nobody else holds is kept, not copied: move it in.
  void accumulate(int index, at::Tensor gradient);
  /// The same for the gradient of a view of the parameter without overlap in itself.
  void accumulate(int index, const ViewGeometry& view, const at::Tensor& gradient);
  /// The stored gradient, undefined if none came since `clear_gradients`.
  at::Tensor& gradient(int index);
  /// The next gradient of each parameter replaces the old one; the bytes held stay the same.
  void clear_gradients();
  /// Lets go of all gradients, whose memory is then free.
  void drop_gradients();
  /// The gradients that came since `clear_gradients`, not copied.
  std::map<int, at::Tensor> gradients() const;
  /// As if these were the gradients that came since `clear_gradients`; they are not copied.
  void set_gradients(const std::map<int, at::Tensor>& gradients);

 private:
  struct Entry {
    at::Tensor tensor, gradient;
    bool fresh = true;  // no gradient since clear_gradients
  };
  Entry& entry(int index);
  at::Tensor zero_gradient(const Entry& entry) const;
  std::set<int> indices_, restored_;
  bool sum_in_float32_ = false;
  at::Device device_ = at::kCPU;
  std::map<int, Entry> entries_;
  at::Tensor none_;
};

}  // namespace penstock
