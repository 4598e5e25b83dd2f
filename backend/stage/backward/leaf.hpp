// A leaf of the backward: a tensor whose gradient is passed to a function as soon as it is
// complete, instead of being accumulated in the tensor's `grad`.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/edge.h>

#include <functional>

namespace penstock {

struct Leaf {
  at::Tensor tensor;           // shares the source's memory, requires a gradient
  torch::autograd::Edge edge;  // the same for the autograd engine
};

/// `receive` is called at most once per engine call that runs the leaf, without grad mode.
Leaf make_leaf(const at::Tensor& source, std::function<void(at::Tensor)> receive);

/// The edge at which the gradient of `tensor` enters the graph; not valid if it requires none.
torch::autograd::Edge gradient_edge(const at::Tensor& tensor);

}  // namespace penstock
