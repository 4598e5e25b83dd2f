// The state that a stage keeps of a microbatch from its forward to the end of its backward, and
// the way that gradients of parameters take.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "backend/stage/backward/autograd_split.hpp"
#include "backend/stage/backward/chain_graph.hpp"
#include "backend/stage/recipe/recipe.hpp"
#include "backend/stage/stage.hpp"

namespace penstock {

struct Held {
  /// A forward that the backward runs again.
  struct Recompute {
    std::map<ValueId, at::Tensor> inputs;
    std::optional<at::Tensor> target;
    StepContext context;
    std::map<int, at::Tensor> buffers;  // copies of those that it updated, from before
  };
  std::optional<Recompute> recompute;
  /// A received value that carries a gradient.
  struct Input {
    torch::autograd::Edge edge;
    std::vector<int64_t> sizes;
    at::TensorOptions options;
    at::Tensor gradient;
  };
  std::map<ValueId, Input> inputs;
  std::map<ValueId, torch::autograd::Edge> sent;
  torch::autograd::Edge loss;
  at::Tensor loss_seed;
  std::vector<WeightUse> uses;  // in the order of the forward
  ChainGraph chain;             // of this microbatch
  bool input_done = false;      // between I and W
};

/// Delivers gradients of parameters, their views and chains to where they are summed.
class GradientRouter {
 public:
  explicit GradientRouter(const Recipe& recipe) : recipe_(recipe) {}
  /// `held` may be null for a value that is not of a microbatch chain.
  void deliver(Held* held, ValueId value, at::Tensor gradient);
  ChainGraph& step_chain() { return step_chain_; }

 private:
  const Recipe& recipe_;
  ChainGraph step_chain_;
};

}  // namespace penstock
