// The backward of an autograd graph, whole, or split into input gradients (I) and weight gradients
// (W). The graph is cut around each weight operator, which takes data and parameters.
//
//     inputs ... -> [weight operator] -> ... -> outputs
//                       ^ leaves
//
// I goes from the outputs to the inputs and to each weight operator's output, W from there to the
// leaves.
//
// Between I and W only the nodes between a weight operator's outputs and its leaves stay alive.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/edge.h>

#include <cstdint>
#include <vector>

namespace penstock {

using Edges = std::vector<torch::autograd::Edge>;
using Gradients = std::vector<at::Tensor>;

/// The edges at which a backward starts, with their gradients.
struct Roots {
  Edges edges;
  Gradients gradients;
  /// Adds a root, unless it requires no gradient.
  void add(const torch::autograd::Edge& edge, at::Tensor gradient);
};

/// One run of a weight operator.
struct WeightUse {
  uint64_t begin = 0, end = 0;  // autograd's sequence numbers of its nodes
  Edges outputs;                // of its differentiable outputs
  Edges leaves;                 // one for each parameter it read
  Gradients gradients;          // of the outputs: from I to W
};

/// Runs every leaf that the roots reach. Frees the graph on the way.
void backward_whole(const Roots& roots);

/// Returns the gradients of `inputs` (undefined where none comes), leaves those of the uses'
/// outputs in the uses, and frees everything that W does not need.
Gradients backward_to_inputs(const Roots& roots, const Edges& inputs, std::vector<WeightUse>& uses);

/// Runs the backward of one use to its leaves, and frees its part of the graph.
void backward_to_leaves(WeightUse use);

}  // namespace penstock
