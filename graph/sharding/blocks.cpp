#include "graph/sharding/blocks.hpp"

#include <algorithm>
#include <set>

namespace penstock::sharding {
namespace {

/// The splits in blocks that each value may be held in, as found by sweeps along the operators.
class Sweeps {
 public:
  explicit Sweeps(const Problem& problem) : problem_(problem), allowed_(problem.varies.size()) {
    for (const auto& [value, layout] : problem.pinned.values) allowed_[value].insert(layout);
    for (size_t i = 0; i < allowed_.size(); ++i) {
      const auto pin = problem.pinned.tensors.find(problem.graph.values[i].tensor);
      if (pin != problem.pinned.tensors.end()) allowed_[i].insert(pin->second);
    }
  }

  bool is_allowed(ValueId value, const Layout& layout) const {
    return value < 0 || !problem_.varies[value] || !layout.is_split() || layout.blocks() == 1 ||
           allowed_[value].contains(layout);
  }
  bool allows(const Node& node, const Signature& signature) const {
    return all(node.operands, signature.operands) && all(node.results, signature.results);
  }

  /// Until nothing is found any more.
  void run() {
    for (bool found = true; found;) {
      found = false;
      for (size_t i = problem_.nodes.size(); i-- > 0;) found |= sweep(problem_.nodes[i]);
      for (const Node& node : problem_.nodes) found |= sweep(node);
    }
  }

 private:
  bool all(const std::vector<ValueId>& values, const std::vector<Layout>& layouts) const {
    for (size_t i = 0; i < values.size(); ++i)
      if (!is_allowed(values[i], layouts[i])) return false;
    return true;
  }
  /// A split in blocks is made of others, or is read or made beside one that is allowed. What makes
  /// a sum of parts does so of any blocks, and of those that none divides as well.
  bool is_reached(const Node& node, const Signature& signature) const {
    return makes(node.operands, signature.operands) || makes(node.results, signature.results) ||
           any(node.operands, signature.operands) || any(node.results, signature.results);
  }
  bool makes(const std::vector<ValueId>& values, const std::vector<Layout>& layouts) const {
    bool has_split = false;
    for (size_t i = 0; i < values.size(); ++i)
      has_split |= layouts[i].is_split() && values[i] >= 0 && problem_.varies[values[i]];
    return has_split && all(values, layouts);
  }
  bool any(const std::vector<ValueId>& values, const std::vector<Layout>& layouts) const {
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] >= 0 && allowed_[values[i]].contains(layouts[i])) return true;
    return false;
  }
  bool sweep(const Node& node) {
    bool found = false;
    for (const Option& option : node.options)
      if (!allows(node, option.signature) && is_reached(node, option.signature)) {
        add(node.operands, option.signature.operands);
        add(node.results, option.signature.results);
        found = true;
      }
    return found;
  }
  void add(const std::vector<ValueId>& values, const std::vector<Layout>& layouts) {
    for (size_t i = 0; i < values.size(); ++i)
      if (!is_allowed(values[i], layouts[i])) allowed_[values[i]].insert(layouts[i]);
  }

  const Problem& problem_;
  std::vector<std::set<Layout>> allowed_;
};

}  // namespace

void leave_out_idle_blocks(Problem& problem) {
  Sweeps sweeps(problem);
  sweeps.run();
  for (Node& node : problem.nodes)
    std::erase_if(node.options,
                  [&](const Option& option) { return !sweeps.allows(node, option.signature); });
}

}  // namespace penstock::sharding
