#include "backend/stage/backward/chain_graph.hpp"

#include <utility>

#include "backend/stage/backward/autograd_split.hpp"
#include "backend/stage/backward/leaf.hpp"
#include "backend/stage/recipe/store.hpp"

namespace penstock {

void ChainGraph::put(ValueId value, const at::Tensor& connected) {
  entries_[value] = {connected, gradient_edge(connected), {}};
}

void ChainGraph::drop_values() {
  for (auto& [value, entry] : entries_) entry.connected.reset();
}

void ChainGraph::add(ValueId value, at::Tensor gradient) {
  add_gradient(entries_.at(value).sum, std::move(gradient));
}

void ChainGraph::backward() {
  Roots roots;
  for (auto& [value, entry] : entries_) {
    if (entry.sum.defined()) roots.add(entry.edge, std::move(entry.sum));
  }
  entries_.clear();
  backward_whole(roots);
}

}  // namespace penstock
