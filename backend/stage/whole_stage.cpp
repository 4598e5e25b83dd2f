#include "backend/stage/whole_stage.hpp"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "backend/device/out_of_memory.hpp"
#include "backend/stage/forward.hpp"
#include "backend/stage/loss.hpp"

namespace penstock {

struct WholeStage::State {
  State(const Graph& graph, const Analysis& analysis, const Slicing& slicing, int stage,
        TensorStore& store, const LossSpec& loss, bool recompute_, int named)
      : recipe(graph, analysis, slicing, stage, store, loss, named),
        constants(recipe),
        router(recipe),
        recompute(recompute_) {}

  /// Runs a forward, without autograd where `held` is null.
  Stage::Forward pass(const Values& inputs, const std::optional<at::Tensor>& target,
                      const StepContext& context, Held* held, bool commit);

  /// Copies of the buffers that a forward updates, taken before it.
  std::map<int, at::Tensor> buffers() const;
  /// Runs the forward on the buffers that it found the first time, and fills `held`.
  void recompute_forward(const Held::Recompute& forward, Held& held);

  Held& held_by(int microbatch);
  Roots roots(Held& held, const Values& gradients);
  static Values input_gradients(Held& held);
  /// Runs `action` on what the microbatch holds; autograd's errors then name stage and microbatch.
  template <class Action>
  auto in_backward(int microbatch, Action action);

  const Recipe recipe;
  Constants constants;
  GradientRouter router;
  const bool recompute;
  std::map<int, std::unique_ptr<Held>> microbatches;
};

namespace {

[[noreturn]] void out_of_order(int stage, int microbatch, const char* problem) {
  throw std::logic_error("stage " + std::to_string(stage) + ", microbatch " +
                         std::to_string(microbatch) + ": " + problem);
}

}  // namespace

WholeStage::WholeStage(const Graph& graph, const Analysis& analysis, const Slicing& slicing,
                       int stage, TensorStore& store, const LossSpec& loss, bool recompute,
                       int named)
    : state_(std::make_unique<State>(graph, analysis, slicing, stage, store, loss, recompute,
                                     named)) {}
WholeStage::~WholeStage() = default;

Stage::Forward WholeStage::forward(int microbatch, const Values& inputs,
                                   const std::optional<at::Tensor>& target,
                                   const StepContext& context) {
  State& state = *state_;
  if (state.microbatches.contains(microbatch)) {
    out_of_order(state.recipe.stage, microbatch, "its forward has run and no backward followed");
  }
  auto held = context.training ? std::make_unique<Held>() : nullptr;
  const bool recompute = context.training && state.recompute;
  if (recompute) held->recompute = Held::Recompute{inputs, target, context, state.buffers()};
  Forward result =
      state.pass(inputs, target, context, recompute ? nullptr : held.get(), context.training);
  if (held) state.microbatches[microbatch] = std::move(held);
  return result;
}

Stage::Forward WholeStage::State::pass(const Values& inputs,
                                       const std::optional<at::Tensor>& target,
                                       const StepContext& context, Held* held, bool commit) {
  const c10::AutoGradMode mode(held != nullptr);
  const bool had_step_chain = !router.step_chain().empty();
  try {
    return ForwardPass(recipe, constants, router, context, held).run(inputs, target, commit);
  } catch (const c10::OutOfMemoryError& error) {
    if (!had_step_chain) router.step_chain().clear();
    throw OutOfMemory("forward of stage " + std::to_string(recipe.stage) + ": " +
                      error.what_without_backtrace());
  } catch (...) {
    if (!had_step_chain) router.step_chain().clear();
    throw;
  }
}

std::map<int, at::Tensor> WholeStage::State::buffers() const {
  std::map<int, at::Tensor> copies;
  for (const auto& [tensor, value] : recipe.roles.updates) {
    copies[tensor] = recipe.store.tensor(tensor).clone();
  }
  return copies;
}

void WholeStage::State::recompute_forward(const Held::Recompute& forward, Held& held) {
  std::map<int, at::Tensor> latest;
  for (const auto& [tensor, before] : forward.buffers) {
    latest[tensor] = std::exchange(recipe.store.tensor(tensor), before);
  }
  const auto restore = [&] {
    for (auto& [tensor, now] : latest) recipe.store.tensor(tensor) = std::move(now);
  };
  try {
    pass(forward.inputs, forward.target, forward.context, &held, false);
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

Held& WholeStage::State::held_by(int microbatch) {
  const auto found = microbatches.find(microbatch);
  if (found != microbatches.end()) return *found->second;
  out_of_order(recipe.stage, microbatch, "a backward without a forward");
}

template <class Action>
auto WholeStage::State::in_backward(int microbatch, Action action) {
  try {
    Held& own = held_by(microbatch);
    if (const auto forward = std::exchange(own.recompute, std::nullopt)) {
      recompute_forward(*forward, own);
    }
    return action(own);
  } catch (const c10::Error& error) {
    const std::string text = "backward of stage " + std::to_string(recipe.stage) + ", microbatch " +
                             std::to_string(microbatch) + ": " + error.what_without_backtrace();
    if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) throw OutOfMemory(text);
    throw std::runtime_error(text);
  }
}

Roots WholeStage::State::roots(Held& held, const Values& gradients) {
  Roots roots;
  for (const auto& [value, edge] : held.sent) {
    const auto given = gradients.find(value);
    if (given == gradients.end()) {
      throw std::logic_error("no gradient came back for `" + recipe.value(value).name + "`");
    }
    if (from_parameters(recipe.role(value))) {
      router.deliver(&held, value, given->second);
    } else {
      roots.add(edge, given->second);
    }
  }
  roots.add(held.loss, std::move(held.loss_seed));
  held.sent.clear();
  held.loss = {};
  return roots;
}

Values WholeStage::State::input_gradients(Held& held) {
  Values result;
  for (auto& [value, input] : held.inputs) {
    result[value] = input.gradient.defined() ? input.gradient.contiguous()
                                             : at::zeros(input.sizes, input.options);
  }
  held.inputs.clear();
  return result;
}

Values WholeStage::backward(int microbatch, const Values& gradients) {
  return state_->in_backward(microbatch, [&](Held& held) {
    if (held.input_done) out_of_order(state_->recipe.stage, microbatch, "B after I");
    Roots roots = state_->roots(held, gradients);
    held.uses.clear();
    backward_whole(roots);
    held.chain.backward();
    Values result = state_->input_gradients(held);
    state_->microbatches.erase(microbatch);
    return result;
  });
}

Values WholeStage::backward_input(int microbatch, const Values& gradients) {
  return state_->in_backward(microbatch, [&](Held& held) {
    if (held.input_done) out_of_order(state_->recipe.stage, microbatch, "a second I");
    Edges wanted;
    for (const auto& [value, input] : held.inputs) wanted.push_back(input.edge);
    Gradients found = backward_to_inputs(state_->roots(held, gradients), wanted, held.uses);
    size_t next = 0;
    for (auto& [value, input] : held.inputs) input.gradient = std::move(found[next++]);
    held.input_done = true;
    return state_->input_gradients(held);
  });
}

/// Goes from the last operator to the first, as autograd does: sums are then equal to B's.
void WholeStage::backward_weight(int microbatch) {
  state_->in_backward(microbatch, [&](Held& held) {
    if (!held.input_done) out_of_order(state_->recipe.stage, microbatch, "W before I");
    for (; !held.uses.empty(); held.uses.pop_back()) {
      backward_to_leaves(std::move(held.uses.back()));
    }
    held.chain.backward();
    state_->microbatches.erase(microbatch);
  });
}

void WholeStage::finish_step() { state_->router.step_chain().backward(); }

void WholeStage::reset() {
  state_->microbatches.clear();
  state_->router.step_chain().clear();
  state_->constants.clear();
}

void WholeStage::refresh() { state_->constants.refresh(); }

std::map<int, int> WholeStage::gradient_uses() const {
  const Recipe& recipe = state_->recipe;
  std::map<int, int> uses;
  const auto note = [&](ValueId value) {
    if (recipe.role(value) == ValueRole::parameter) ++uses[recipe.value(value).tensor];
    if (recipe.role(value) == ValueRole::view) ++uses[recipe.roles.views.at(value).tensor];
  };
  for (const StageOperator& op : recipe.roles.operators) std::ranges::for_each(op.leaves, note);
  for (const auto& [value, gradient] : recipe.sent) note(value);
  if (recipe.has_loss) note(recipe.first_output());
  return uses;
}

bool WholeStage::has_loss() const { return state_->recipe.has_loss; }
bool WholeStage::needs_target() const {
  return has_loss() && penstock::needs_target(state_->recipe.loss.kind);
}
bool WholeStage::has_random() const {
  return std::ranges::any_of(state_->recipe.roles.operators, &StageOperator::random);
}
at::Device WholeStage::device() const { return state_->recipe.store.device(); }

}  // namespace penstock
