// Values computed from parameters alone, with their autograd graph, and the sums of the gradients
// that their uses have sent back.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/edge.h>

#include <map>

#include "graph/graph.hpp"

namespace penstock {

class ChainGraph {
 public:
  /// Adds a value with its history.
  void put(ValueId value, const at::Tensor& connected);
  /// The value with its history, for the next operator of the chain.
  const at::Tensor& connected(ValueId value) const { return entries_.at(value).connected; }
  /// Drops the values and keeps their histories, once all operators of the chain have run.
  void drop_values();

  /// Adds to the gradient of a value.
  void add(ValueId value, at::Tensor gradient);
  /// Sends the sums back to the chain's leaves in one engine call; the chain is then empty.
  void backward();

  bool empty() const { return entries_.empty(); }
  void clear() { entries_.clear(); }
  /// Calls `use(value, tensor)` for each value, without its history.
  template <class Use>
  void for_each(Use use) const {
    for (const auto& [value, entry] : entries_) use(value, entry.connected.detach());
  }

 private:
  struct Entry {
    at::Tensor connected;
    torch::autograd::Edge edge;
    at::Tensor sum;
  };
  std::map<ValueId, Entry> entries_;
};

}  // namespace penstock
