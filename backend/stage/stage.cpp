#include "backend/stage/stage.hpp"

#include <c10/core/GradMode.h>
#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "backend/device/out_of_memory.hpp"
#include "backend/stage/forward.hpp"
#include "backend/stage/loss.hpp"

namespace penstock {

struct Stage::State {
  State(const Graph& graph, const Analysis& analysis, const Slicing& slicing, int stage,
        TensorStore& store, Loss loss, bool recompute_, int part_of)
      : recipe(graph, analysis, slicing, stage, store, loss, part_of),
        constants(recipe),
        router(recipe),
        recompute(recompute_) {}

  /// Runs a forward; `held` null: nothing is recorded.
  Stage::Forward pass(const Values& inputs, const std::optional<at::Tensor>& target,
                      const StepContext& context, Held* held, bool commit);

  /// Copies of the buffers that a forward updates, as they are before it.
  std::map<int, at::Tensor> buffers() const;
  /// The forward of `again` on the buffers that it found the first time.
  void run_again(const Held::Again& again, Held& of);

  Held& held(int microbatch);
  Roots roots(Held& microbatch, const Values& gradients);
  Values input_gradients(Held& microbatch);
  /// Runs `action`; what autograd throws gets the stage and microbatch as context.
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

Stage::Stage(const Graph& graph, const Analysis& analysis, const Slicing& slicing, int stage,
             TensorStore& store, Loss loss, bool recompute, int part_of)
    : state_(std::make_unique<State>(graph, analysis, slicing, stage, store, loss, recompute,
                                     part_of)) {}
Stage::~Stage() = default;

Stage::Forward Stage::forward(int microbatch, const Values& inputs,
                              const std::optional<at::Tensor>& target, const StepContext& context) {
  State& state = *state_;
  if (state.microbatches.contains(microbatch)) {
    out_of_order(index(), microbatch, "its forward has run and no backward followed");
  }
  auto held = context.training ? std::make_unique<Held>() : nullptr;
  const bool again = context.training && state.recompute;
  if (again) held->again = Held::Again{inputs, target, context, state.buffers()};
  Forward result = state.pass(inputs, target, context, again ? nullptr : held.get(), true);
  if (held) state.microbatches[microbatch] = std::move(held);
  return result;
}

Stage::Forward Stage::State::pass(const Values& inputs, const std::optional<at::Tensor>& target,
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

std::map<int, at::Tensor> Stage::State::buffers() const {
  std::map<int, at::Tensor> copies;
  for (const auto& [tensor, value] : recipe.roles.updates) {
    copies[tensor] = recipe.store.tensor(tensor).clone();
  }
  return copies;
}

void Stage::State::run_again(const Held::Again& again, Held& of) {
  std::map<int, at::Tensor> latest;
  for (const auto& [tensor, before] : again.buffers) {
    latest[tensor] = std::exchange(recipe.store.tensor(tensor), before);
  }
  const auto restore = [&] {
    for (auto& [tensor, now] : latest) recipe.store.tensor(tensor) = std::move(now);
  };
  try {
    pass(again.inputs, again.target, again.context, &of, false);
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

Held& Stage::State::held(int microbatch) {
  const auto found = microbatches.find(microbatch);
  if (found != microbatches.end()) return *found->second;
  out_of_order(recipe.stage, microbatch, "a backward without a forward");
}

template <class Action>
auto Stage::State::in_backward(int microbatch, Action action) {
  try {
    Held& of = held(microbatch);
    if (const auto again = std::exchange(of.again, std::nullopt)) {
      run_again(*again, of);
    }
    return action(of);
  } catch (const c10::Error& error) {
    const std::string text = "backward of stage " + std::to_string(recipe.stage) + ", microbatch " +
                             std::to_string(microbatch) + ": " + error.what_without_backtrace();
    if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) throw OutOfMemory(text);
    throw std::runtime_error(text);
  }
}

Roots Stage::State::roots(Held& microbatch, const Values& gradients) {
  Roots roots;
  for (const auto& [value, edge] : microbatch.sent) {
    const auto given = gradients.find(value);
    if (given == gradients.end()) {
      throw std::logic_error("no gradient came back for `" + recipe.value(value).name + "`");
    }
    if (from_parameters(recipe.role(value))) {
      router.deliver(&microbatch, value, given->second);
    } else {
      roots.add(edge, given->second);
    }
  }
  roots.add(microbatch.loss, std::move(microbatch.loss_seed));
  microbatch.sent.clear();
  microbatch.loss = {};
  return roots;
}

Values Stage::State::input_gradients(Held& microbatch) {
  Values result;
  for (auto& [value, input] : microbatch.inputs) {
    result[value] = input.gradient.defined() ? input.gradient.contiguous()
                                             : at::zeros(input.sizes, input.options);
  }
  microbatch.inputs.clear();
  return result;
}

Values Stage::backward(int microbatch, const Values& gradients) {
  return state_->in_backward(microbatch, [&](Held& held) {
    if (held.input_done) out_of_order(index(), microbatch, "B after I");
    Roots roots = state_->roots(held, gradients);
    held.uses.clear();
    backward_whole(roots);
    held.chain.backward();
    Values result = state_->input_gradients(held);
    state_->microbatches.erase(microbatch);
    return result;
  });
}

Values Stage::backward_input(int microbatch, const Values& gradients) {
  return state_->in_backward(microbatch, [&](Held& held) {
    if (held.input_done) out_of_order(index(), microbatch, "a second I");
    Edges wanted;
    for (const auto& [value, input] : held.inputs) wanted.push_back(input.edge);
    Gradients found = backward_to_inputs(state_->roots(held, gradients), wanted, held.uses);
    size_t next = 0;
    for (auto& [value, input] : held.inputs) input.gradient = std::move(found[next++]);
    held.input_done = true;
    return state_->input_gradients(held);
  });
}

/// From the last operator to the first, as autograd goes: sums come out the same as B's.
void Stage::backward_weight(int microbatch) {
  state_->in_backward(microbatch, [&](Held& held) {
    if (!held.input_done) out_of_order(index(), microbatch, "W before I");
    for (; !held.uses.empty(); held.uses.pop_back()) {
      backward_to_leaves(std::move(held.uses.back()));
    }
    held.chain.backward();
    state_->microbatches.erase(microbatch);
  });
}

void Stage::finish_step() { state_->router.step_chain().backward(); }

void Stage::reset() {
  state_->microbatches.clear();
  state_->router.step_chain().clear();
  state_->constants.clear();
}

bool Stage::has_loss() const { return state_->recipe.has_loss; }
bool Stage::needs_target() const {
  return has_loss() && penstock::needs_target(state_->recipe.loss);
}
bool Stage::has_random() const {
  return std::ranges::any_of(state_->recipe.roles.operators, &StageOperator::random);
}
at::Device Stage::device() const { return state_->recipe.store.device(); }
int Stage::index() const { return state_->recipe.stage; }

}  // namespace penstock
