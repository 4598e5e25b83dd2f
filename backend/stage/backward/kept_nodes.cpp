#include "backend/stage/backward/kept_nodes.hpp"

#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <memory>

namespace penstock {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using NodeSet = std::unordered_set<Node*>;

/// The nodes that `enter` admits and the edges reach through admitted ones.
template <class Enter>
std::vector<Node*> reachable(const Edges& from, Enter enter) {
  NodeSet seen;
  std::vector<Node*> found;
  const auto visit = [&](const Edge& edge) {
    Node* node = edge.function.get();
    if (node != nullptr && enter(*node) && seen.insert(node).second) found.push_back(node);
  };
  std::ranges::for_each(from, visit);
  for (size_t next = 0; next < found.size(); ++next) {
    const auto& edges = std::as_const(*found[next]).next_edges();
    std::ranges::for_each(edges, visit);
  }
  return found;
}

/// A use's leaves, and its nodes that reach one of them. A node's sequence number is above those of
/// all nodes that it leads to.
NodeSet nodes_to_leaves(const WeightUse& use) {
  const auto own = [&](const Node& node) {
    return node.sequence_nr() >= use.begin && node.sequence_nr() < use.end;
  };
  std::vector<Node*> nodes = reachable(use.outputs, own);
  std::ranges::sort(nodes, {}, [](const Node* node) { return node->sequence_nr(); });
  NodeSet kept;
  for (const Edge& leaf : use.leaves) kept.insert(leaf.function.get());
  for (Node* node : nodes) {
    const auto leads = [&](const Edge& edge) { return kept.contains(edge.function.get()); };
    if (std::ranges::any_of(std::as_const(*node).next_edges(), leads)) kept.insert(node);
  }
  return kept;
}

struct ReleaseAfterUse final : torch::autograd::FunctionPostHook {
  explicit ReleaseAfterUse(Node* owner) : node(owner) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    node->release_variables();
    return outputs;
  }
  Node* node;  // owns the hook
};

}  // namespace

KeptNodes::KeptNodes(const std::vector<WeightUse>& uses) {
  for (const WeightUse& use : uses) {
    by_use_.push_back(nodes_to_leaves(use));
    kept_.insert(by_use_.back().begin(), by_use_.back().end());
  }
}

void KeptNodes::release_others_after_use(const Edges& roots) const {
  for (Node* node : reachable(roots, [](const Node&) { return true; })) {
    if (!kept_.contains(node)) node->add_post_hook(std::make_unique<ReleaseAfterUse>(node));
  }
}

void KeptNodes::cut_off() const {
  for (const NodeSet& own : by_use_) {
    for (Node* node : own) {
      for (Edge& edge : node->next_edges()) {
        if (!own.contains(edge.function.get())) edge = Edge();
      }
    }
  }
}

}  // namespace penstock
