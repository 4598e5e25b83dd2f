#include "backend/operators/gathered_again.hpp"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace penstock {

using torch::autograd::Node;

at::Tensor GatheredAgain::take_turn(int turns, bool needed) {
  if (needed && !whole_.defined()) whole_ = converted(own_, from_, to_, group_);
  const at::Tensor whole = needed ? whole_ : at::Tensor();
  ++waiting_[turns + 1];
  if (--waiting_[turns] == 0) whole_.reset();
  return whole;
}

namespace {

/// The operator that a thread runs; nothing where autograd saves as usual.
struct Running {
  bool product = false;
};
thread_local std::optional<Running> running;

/// A tensor that autograd has saved. The weak reference tells who watches that memory's references
/// (backend/profiler/memory_trace.hpp) that the backward needs it.
class SavedPart final : public torch::autograd::SavedVariableHooks {
 public:
  explicit SavedPart(bool product) : product_(product) {}
  ~SavedPart() override {
    if (gathered_) gathered_->remove(turns_);
  }
  SavedPart(const SavedPart&) = delete;
  SavedPart& operator=(const SavedPart&) = delete;

  void call_pack_hook(const at::Tensor& tensor) override {
    gathered_ = gathered_again(tensor);
    if (!gathered_) {
      saved_ = tensor.detach();
      return;
    }
    gathered_->add();
    made_by_ = tensor.grad_fn().get();
    sizes_ = tensor.sizes().vec(), strides_ = tensor.strides().vec();
    offset_ = tensor.storage_offset();
    memory_ = tensor.storage().getWeakStorageImpl();
  }

  at::Tensor call_unpack_hook() override {
    if (!gathered_) return saved_;
    const at::Tensor whole = gathered_->take_turn(turns_++, is_needed());
    if (!whole.defined()) return at::empty_strided(sizes_, strides_, gathered_->own().options());
    return whole.as_strided(sizes_, strides_, offset_);
  }

 private:
  /// A product that computes the gradient of this factor alone (as I does where the other one is a
  /// parameter) is given room in place of it, of the same shape, so that it takes the same kernel.
  bool is_needed() const {
    const std::shared_ptr<Node> node = torch::autograd::get_current_node();
    if (!product_ || !node) return true;
    int own = 0;
    for (uint32_t i = 0; i < node->num_outputs(); ++i) {
      if (node->next_edge(i).function.get() == made_by_)
        ++own;
      else if (node->task_should_compute_output(i))
        return true;
    }
    return own != 1;
  }

  const bool product_;
  int turns_ = 0;
  std::shared_ptr<GatheredAgain> gathered_;
  at::Tensor saved_;
  const Node* made_by_ = nullptr;  // the node it comes from, which outlives this
  std::vector<int64_t> sizes_, strides_;
  int64_t offset_ = 0;
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> memory_;
};

/// Autograd asks its engine how to save a tensor; without Python there is no other way to say it
/// for all operators.
class Engine final : public torch::autograd::Engine {
 public:
  ~Engine() override { stop(); }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return running ? std::make_unique<SavedPart>(running->product) : nullptr;
  }
};

torch::autograd::Engine& engine_of_process() {
  static Engine engine;
  return engine;
}

[[maybe_unused]] const bool installed = [] {
  torch::autograd::set_default_engine_stub(&engine_of_process);
  return true;
}();

bool is_gathered(const c10::IValue& argument) {
  return argument.isTensor() && argument.toTensor().defined() &&
         gathered_again(argument.toTensor()) != nullptr;
}

}  // namespace

SavesParts::SavesParts(const torch::jit::Stack& arguments, bool product)
    : here_(in_tensor_group() && std::ranges::any_of(arguments, is_gathered)) {
  if (here_) running = Running{product};
}
SavesParts::~SavesParts() {
  if (here_) running.reset();
}

}  // namespace penstock
