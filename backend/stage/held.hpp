// What a stage keeps of a microbatch from its forward to the end of its backward, and where the
// gradients of parameters go.
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
  struct Again {
    std::map<ValueId, at::Tensor> inputs;
    std::optional<at::Tensor> target;
    StepContext context;
    std::map<int, at::Tensor> buffers;  // those that it updated, as it found them
  };
  std::optional<Again> again;
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
  bool input_done = false;      // I has run, W has not
};

/// Takes gradients of parameters, their views and chains to where they are summed.
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
