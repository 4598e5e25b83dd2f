#include "backend/stage/backward/leaf.hpp"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <limits>

namespace penstock {
namespace {

/// Its sequence number is the highest, as AccumulateGrad's is, so that it runs as soon as it is
/// ready and a gradient is not held longer than necessary.
class LeafNode final : public torch::autograd::Node {
 public:
  LeafNode(const at::Tensor& tensor, std::function<void(at::Tensor)> receive)
      : Node(std::numeric_limits<uint64_t>::max()), receive_(std::move(receive)) {
    add_input_metadata(tensor);
  }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    at::Tensor gradient = std::move(gradients[0]);
    if (gradient.defined()) receive_(std::move(gradient));
    return {};
  }
  std::string name() const override { return "penstock::Leaf"; }

 private:
  std::function<void(at::Tensor)> receive_;
};

}  // namespace

Leaf make_leaf(const at::Tensor& source, std::function<void(at::Tensor)> receive) {
  const at::Tensor tensor = source.detach();
  auto node = std::make_shared<LeafNode>(tensor, std::move(receive));
  torch::autograd::impl::set_gradient_edge(tensor, {node, 0});
  return {tensor, {node, 0}};
}

torch::autograd::Edge gradient_edge(const at::Tensor& tensor) {
  if (!tensor.requires_grad()) return {};
  return torch::autograd::impl::gradient_edge(tensor);
}

}  // namespace penstock
