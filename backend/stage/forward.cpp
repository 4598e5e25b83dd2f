#include "backend/stage/forward.hpp"

#include <ATen/SequenceNumber.h>

#include <utility>

#include "backend/stage/backward/leaf.hpp"
#include "backend/stage/recipe/parameter_views.hpp"

namespace penstock {
namespace {

/// A part draws as the whole model does.
OperatorId number_in_model(const StageOperator& op) {
  const OperatorId original = op.prepared.op().original;
  return original < 0 ? op.id : original;
}

}  // namespace

ForwardPass::ForwardPass(const Recipe& recipe, Constants& constants, GradientRouter& router,
                         const StepContext& context, Held* held)
    : recipe_(recipe),
      constants_(constants),
      router_(router),
      values_(recipe.graph.values.size()),
      context_(context),
      held_(held) {}

Stage::Forward ForwardPass::run(const Values& inputs, const std::optional<at::Tensor>& target,
                                bool commit) {
  bind_stored();
  bind_inputs(inputs);
  run_operators();
  Stage::Forward result;
  result.sent = sent();
  result.loss = observed_loss(target);
  if (!context_.training && context_.outputs) result.outputs = outputs();
  if (commit) commit_updates();
  if (held_ != nullptr) held_->chain.drop_values();
  return result;
}

void ForwardPass::run_operators() {
  const auto& operators = recipe_.roles.operators;
  const bool step_chain_ready = held_ != nullptr && !router_.step_chain().empty();
  for (size_t k = 0; k < operators.size(); ++k) {
    const ValueRole role = operators[k].role;
    const bool done =
        role == ValueRole::constant || (role == ValueRole::step_chain && step_chain_ready);
    if (!done) run_observed(operators[k]);
    for (const ValueId value : recipe_.released[k]) at(value).reset();
  }
}

void ForwardPass::run_observed(const StageOperator& op) {
  const Operator& own = op.prepared.op();
  ForwardObserver* const observer = context_.observer;
  const std::vector<ValueId> reads = observer != nullptr ? own.reads() : std::vector<ValueId>();
  if (observer != nullptr) observer->before(op.id, reads, values_);
  if (held_ != nullptr)
    run_recorded(op);
  else
    run_unrecorded(op);
  if (observer != nullptr) observer->after(op.id, reads, own.outputs, values_);
}

void ForwardPass::run_kernel(const StageOperator& op) {
  std::optional<SeededGenerator> generator;
  if (op.random) {
    const uint64_t seed =
        operator_seed(context_.random, number_in_model(op), op.prepared.op().by_part);
    generator.emplace(recipe_.store.device(), seed);
  }
  op.prepared.run(values_, context_.batch);
}

ChainGraph* ForwardPass::chain_of(const StageOperator& op) {
  if (op.role == ValueRole::step_chain) return &router_.step_chain();
  return op.role == ValueRole::microbatch_chain ? &held_->chain : nullptr;
}

Leaf ForwardPass::leaf(ValueId value) {
  return make_leaf(at(value), [router = &router_, held = held_, value](at::Tensor gradient) {
    router->deliver(held, value, std::move(gradient));
  });
}

/// The operator sees leaves and histories in place of the plain values, which are then restored.
void ForwardPass::run_recorded(const StageOperator& op) {
  ChainGraph* chain = chain_of(op);
  std::vector<std::pair<ValueId, at::Tensor>> replaced;
  WeightUse use{.begin = at::sequence_number::peek()};
  for (const ValueId value : op.leaves) {
    Leaf own = leaf(value);
    replaced.emplace_back(value, std::exchange(at(value), std::move(own.tensor)));
    use.leaves.push_back(std::move(own.edge));
  }
  for (const ValueId value : op.connected) {
    replaced.emplace_back(value, std::exchange(at(value), chain->connected(value)));
  }
  run_kernel(op);
  for (auto& [value, tensor] : replaced) at(value) = std::move(tensor);
  if (op.weight) add_weight_use(op, use);
  if (chain != nullptr) move_to_chain(op, *chain);
}

/// An operator may choose its kernel by which tensors require gradients, as a product of a strided
/// input with a weight does; so they do here, where nothing is recorded.
void ForwardPass::run_unrecorded(const StageOperator& op) {
  std::vector<std::pair<ValueId, at::Tensor>> replaced;
  for (const auto* values : {&op.leaves, &op.connected}) {
    for (const ValueId value : *values) {
      const at::Tensor marked = at(value).detach().requires_grad_(true);
      replaced.emplace_back(value, std::exchange(at(value), marked));
    }
  }
  run_kernel(op);
  for (auto& [value, tensor] : replaced) at(value) = std::move(tensor);
}

/// One of several outputs may be computed from another; an alias of each tells the gradient that
/// comes from outside the operator apart.
void ForwardPass::add_weight_use(const StageOperator& op, WeightUse& use) {
  std::vector<ValueId> differentiable;
  for (const ValueId value : op.prepared.op().outputs) {
    if (value >= 0 && at(value).requires_grad()) differentiable.push_back(value);
  }
  for (const ValueId value : differentiable) {
    if (differentiable.size() > 1) at(value) = at::alias(at(value));
    use.outputs.push_back(gradient_edge(at(value)));
  }
  use.end = at::sequence_number::peek();
  if (!use.outputs.empty()) held_->uses.push_back(std::move(use));
}

void ForwardPass::move_to_chain(const StageOperator& op, ChainGraph& chain) {
  for (const ValueId value : op.prepared.op().outputs) {
    if (value < 0) continue;
    chain.put(value, at(value));
    at(value) = at(value).detach();
  }
}

}  // namespace penstock
