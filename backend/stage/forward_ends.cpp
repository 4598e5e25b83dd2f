// The inputs and outputs of a forward pass: see forward.hpp.
#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>

#include <sstream>

#include "backend/operators/dtype.hpp"
#include "backend/operators/tensor_group.hpp"
#include "backend/stage/backward/leaf.hpp"
#include "backend/stage/forward.hpp"
#include "backend/stage/loss.hpp"
#include "base/error.hpp"

namespace penstock {

void ForwardPass::bind_stored() {
  for (const ValueId value : recipe_.stored) {
    const at::Tensor& tensor = recipe_.store.tensor(recipe_.value(value).tensor);
    at(value) = recipe_.roles.copied.contains(value) ? tensor.clone() : tensor;
  }
  for (const auto& [value, view] : recipe_.roles.views) {
    at(value) = view_of(recipe_.store.tensor(view.tensor), view.geometry);
  }
  for (const auto& [value, tensor] : constants_.at(context_.batch)) at(value) = tensor;
  if (held_ == nullptr) return;
  router_.step_chain().for_each([&](ValueId value, const at::Tensor& t) { at(value) = t; });
}

void ForwardPass::bind_inputs(const Values& inputs) {
  const auto given = [&](ValueId value) -> const at::Tensor& {
    const auto found = inputs.find(value);
    if (found != inputs.end()) return found->second;
    throw std::logic_error("stage " + std::to_string(recipe_.stage) + " was not given `" +
                           recipe_.value(value).name + "`");
  };
  for (const ValueId value : recipe_.slice.user_inputs) {
    check_user_input(value, given(value));
    bind_received(value, given(value), false);
  }
  for (const auto& [value, gradient] : recipe_.received) {
    bind_received(value, given(value), gradient);
  }
}

void ForwardPass::bind_received(ValueId value, const at::Tensor& tensor, bool gradient) {
  at(value) = tensor.detach();
  if (gradient && held_ != nullptr) {
    Held::Input& input = held_->inputs[value];
    input = {{}, tensor.sizes().vec(), tensor.options(), {}};
    Leaf leaf = make_leaf(tensor, [&input](at::Tensor g) { input.gradient = std::move(g); });
    at(value) = std::move(leaf.tensor);
    input.edge = std::move(leaf.edge);
  }
  if (recipe_.roles.copied.contains(value)) at(value) = at(value).clone();
}

void ForwardPass::check_user_input(ValueId id, const at::Tensor& tensor) const {
  const Value& value = recipe_.value(id);
  std::vector<int64_t> expected;
  for (const Expression& size : value.shape) expected.push_back(size.at(context_.batch));
  if (tensor.sizes() == expected && tensor.scalar_type() == scalar_type(value.dtype)) return;
  std::ostringstream problem;
  problem << "input `" << value.name << "` is " << tensor.scalar_type() << ' ' << tensor.sizes()
          << ", the model takes " << scalar_type(value.dtype) << ' ' << at::IntArrayRef(expected);
  throw InputError(recipe_.graph.path, problem.str(), "give data of that type and shape");
}

Values ForwardPass::sent() {
  Values result;
  for (const auto& [value, gradient] : recipe_.sent) {
    result[value] = at(value).detach().contiguous();
    if (held_ != nullptr && gradient) held_->sent[value] = gradient_edge(at(value));
  }
  return result;
}

/// Logits of which the parts compute the loss are put together where they are asked for.
at::Tensor ForwardPass::whole_output(int index, const at::Tensor& own) const {
  if (index > 0 || !recipe_.classes) return own.contiguous();
  return converted(own, *recipe_.classes, sharding::Layout::identical(), current_group());
}

std::map<int, at::Tensor> ForwardPass::outputs() {
  std::map<int, at::Tensor> result;
  for (const int index : recipe_.slice.outputs) {
    const ArgumentValue& output = recipe_.graph.outputs[static_cast<size_t>(index)].value;
    if (const auto* ref = std::get_if<TensorRef>(&output)) {
      result[index] = whole_output(index, at(ref->value).detach());
    } else if (const auto* size = std::get_if<Expression>(&output)) {
      result[index] = std::visit([](auto n) { return at::scalar_to_tensor(n); },
                                 size->evaluate(context_.batch));
    } else if (const auto* whole = std::get_if<int64_t>(&output)) {
      result[index] = at::scalar_to_tensor(*whole);
    } else if (const auto* number = std::get_if<double>(&output)) {
      result[index] = at::scalar_to_tensor(*number);
    }
  }
  return result;
}

std::optional<at::Tensor> ForwardPass::observed_loss(const std::optional<at::Tensor>& target) {
  if (!recipe_.has_loss || context_.observer == nullptr) return loss(target);
  const std::vector<ValueId> reads{recipe_.first_output()};
  const OperatorId maker = recipe_.value(reads.front()).producer;
  context_.observer->before(maker, reads, values_);
  std::optional<at::Tensor> result = loss(target);
  context_.observer->after(maker, reads, {}, values_);
  return result;
}

namespace {

/// A scalar may lie in the memory of all that it is the mean of.
at::Tensor alone(const at::Tensor& loss) {
  const at::Tensor result = loss.detach();
  return result.storage().nbytes() > result.nbytes() ? result.clone() : result;
}

}  // namespace

std::optional<at::Tensor> ForwardPass::loss(const std::optional<at::Tensor>& target) {
  const bool computable = target || !needs_target(recipe_.loss.kind);
  if (!recipe_.has_loss || (!computable && held_ == nullptr)) return std::nullopt;
  const ValueId id = recipe_.first_output();
  WeightUse use{.begin = at::sequence_number::peek()};
  if (held_ != nullptr && from_parameters(recipe_.role(id))) {
    Leaf own = leaf(id);  // the loss itself is a weight operator
    at(id) = std::move(own.tensor);
    use.leaves.push_back(std::move(own.edge));
  }
  at::Tensor wanted = target.value_or(at::Tensor()), output = at(id);
  if (context_.float32_loss && output.is_floating_point()) {
    if (wanted.defined() && wanted.is_floating_point()) wanted = wanted.to(at::kFloat);
    output = output.to(at::kFloat);
  }
  const at::Tensor loss = mean_loss(recipe_.loss, output, wanted, recipe_.classes);
  if (held_ == nullptr) return alone(loss);
  if (!use.leaves.empty()) {
    use.outputs.push_back(gradient_edge(loss));
    use.end = at::sequence_number::peek();
    held_->uses.push_back(std::move(use));
  }
  if (!loss.requires_grad()) {
    throw InputError(
        recipe_.graph.path,
        "the model's first output `" + recipe_.value(id).name +
            "` does not depend on a trainable parameter, so the loss cannot be trained",
        "return the tensor that the loss is computed from first");
  }
  held_->loss = gradient_edge(loss);
  held_->loss_seed = context_.captured_loss_scale
                         ? context_.captured_loss_scale->to(loss.options())
                         : at::full({}, context_.loss_scale, loss.options());
  return alone(loss);
}

/// Runs once per microbatch, in their order, so that buffers end as the model leaves them.
void ForwardPass::commit_updates() {
  const at::NoGradGuard no_grad;
  for (const auto& [tensor, value] : recipe_.roles.updates) {
    recipe_.store.tensor(tensor).copy_(at(value).detach());
  }
}

}  // namespace penstock
