// The nodes of an autograd graph that W still needs after I, and the release of all others.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <unordered_set>
#include <vector>

#include "backend/stage/backward/autograd_split.hpp"

namespace penstock {

class KeptNodes {
 public:
  /// Keeps the nodes on a path from a weight operator's outputs to its own leaves.
  explicit KeptNodes(const std::vector<WeightUse>& uses);

  /// Makes every other node that the roots reach free its saved tensors as soon as it has run.
  void release_others_after_use(const Edges& roots) const;
  /// Cuts the nodes of each use off from all others, which die with the roots.
  void cut_off() const;

 private:
  std::unordered_set<torch::autograd::Node*> kept_;  // of all uses, and their leaves
  std::vector<std::unordered_set<torch::autograd::Node*>> by_use_;
};

}  // namespace penstock
