#include "backend/stage/backward/autograd_split.hpp"

#include <torch/csrc/autograd/engine.h>

#include <utility>

#include "backend/stage/backward/kept_nodes.hpp"

namespace penstock {
namespace {

torch::autograd::Engine& engine() { return torch::autograd::Engine::get_default_engine(); }

}  // namespace

void Roots::add(const torch::autograd::Edge& edge, at::Tensor gradient) {
  if (!edge.is_valid() || !gradient.defined()) return;
  edges.push_back(edge);
  gradients.push_back(std::move(gradient));
}

void backward_whole(const Roots& roots) {
  if (roots.edges.empty()) return;
  engine().execute(roots.edges, roots.gradients, /*keep_graph=*/false, /*create_graph=*/false,
                   /*accumulate_grad=*/true);
}

Gradients backward_to_inputs(const Roots& roots, const Edges& inputs,
                             std::vector<WeightUse>& uses) {
  const KeptNodes kept(uses);
  Edges wanted = inputs;
  for (const WeightUse& use : uses) {
    wanted.insert(wanted.end(), use.outputs.begin(), use.outputs.end());
  }
  Gradients found(wanted.size());
  if (!roots.edges.empty() && !wanted.empty()) {
    kept.release_others_after_use(roots.edges);
    found = engine().execute(roots.edges, roots.gradients, /*keep_graph=*/true,
                             /*create_graph=*/false, /*accumulate_grad=*/false, wanted);
  }
  kept.cut_off();
  auto next = found.begin() + static_cast<std::ptrdiff_t>(inputs.size());
  for (WeightUse& use : uses) {
    for (size_t k = 0; k < use.outputs.size(); ++k) use.gradients.push_back(std::move(*next++));
  }
  found.resize(inputs.size());
  return found;
}

void backward_to_leaves(WeightUse use) {
  Roots roots;
  for (size_t k = 0; k < use.outputs.size(); ++k) {
    roots.add(use.outputs[k], std::move(use.gradients[k]));
  }
  if (roots.edges.empty() || use.leaves.empty()) return;
  engine().execute(roots.edges, roots.gradients, /*keep_graph=*/false, /*create_graph=*/false,
                   /*accumulate_grad=*/true, use.leaves);
}

}  // namespace penstock
