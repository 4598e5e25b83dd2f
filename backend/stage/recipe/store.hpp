// The stored tensors of one rank: parameters with their gradients, buffers, constants.
// Two stages of one rank that use the same parameter share one tensor here.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "graph/pt2/pt2.hpp"
#include "pipeline/weights/match.hpp"

namespace penstock {

/// Adds `gradient` to `sum`; an undefined sum becomes the gradient itself where nothing else refers
/// to its memory, else a copy. Move the gradient in.
void add_gradient(at::Tensor& sum, at::Tensor gradient);

/// The place of a view in its parameter, and of the view's gradient in the parameter's.
struct ViewGeometry {
  std::vector<int64_t> sizes, strides;  // in elements
  int64_t offset = 0;                   // in elements, from the parameter's first
};

class TensorStore {
 public:
  /// Loads the tensors `indices` of `graph.tensors`, on `device`, contiguous: from `weights` what
  /// these have, in the tensor's own type; the rest from the graph's file, or initialised as that
  /// says. Of neither more is read. Throws InputError for a tensor without values.
  TensorStore(const Graph& graph, const std::set<int>& indices, at::Device device = at::kCPU,
              const MatchedWeights* weights = nullptr)
      : TensorStore(graph, indices, device, weights, [](int, at::Tensor whole) { return whole; }) {}
  /// Holds what `held` makes of each tensor in its place.
  using MakeHeld = std::function<at::Tensor(int index, at::Tensor whole)>;
  TensorStore(const Graph& graph, const std::set<int>& indices, at::Device device,
              const MatchedWeights* weights, const MakeHeld& held);
  /// Holds the given tensors of `device`, contiguous (made-up weights, tests).
  explicit TensorStore(const std::map<int, at::Tensor>& tensors, at::Device device = at::kCPU);

  /// From now on gradients of bfloat16 tensors are summed in float32. Call it before the first.
  void sum_in_float32() { sum_in_float32_ = true; }
  /// The type in which gradients of `type` are summed.
  at::ScalarType sum_type(at::ScalarType type) const;

  /// Marks a tensor that a checkpoint had though it is not trained now: later ones have it too.
  void mark_restored(int index) { restored_.insert(index); }
  bool restored(int index) const { return restored_.contains(index); }

  const std::set<int>& indices() const { return indices_; }
  at::Device device() const { return device_; }
  at::Tensor& tensor(int index);
  /// Adds to the stored gradient; the first gradient of a step is stored, not added. An exclusively
  /// owned gradient is kept, not copied: move it in.
  void accumulate(int index, at::Tensor gradient);
  /// Adds the gradient of a view of the parameter without overlap in itself.
  void accumulate(int index, const ViewGeometry& view, const at::Tensor& gradient);
  /// From now on the gradient of this tensor lies in `place`, contiguous and of its sum type.
  void place_gradient(int index, at::Tensor place);
  /// Calls `added` with a tensor's index after each addition to its gradient; empty: nothing.
  void watch_gradients(std::function<void(int)> added) { added_ = std::move(added); }
  /// The stored gradient, undefined if none came since `clear_gradients`.
  at::Tensor& gradient(int index);
  /// Marks all gradients as stale: the next one replaces the old one. The bytes held stay the same.
  void clear_gradients();
  /// Frees all gradients but those that have a place.
  void drop_gradients();
  /// The gradients that came since `clear_gradients`, not copied.
  std::map<int, at::Tensor> gradients() const;
  /// Makes these the gradients that came since `clear_gradients`; they are not copied.
  void set_gradients(const std::map<int, at::Tensor>& gradients);

 private:
  struct Entry {
    at::Tensor tensor, gradient;
    bool fresh = true;    // no gradient since clear_gradients
    bool placed = false;  // the gradient's memory is another's
  };
  Entry& entry(int index);
  at::Tensor zero_gradient(const Entry& entry) const;
  std::set<int> indices_, restored_;
  bool sum_in_float32_ = false;
  at::Device device_ = at::kCPU;
  std::map<int, Entry> entries_;
  std::function<void(int)> added_;
  at::Tensor none_;
};

}  // namespace penstock
