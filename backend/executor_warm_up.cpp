// A step that leaves nothing behind but memory that is asked for and kernels that are loaded.
#include "backend/dry.hpp"

#include <ATen/core/grad_mode.h>
#include "backend/executor.hpp"

namespace penstock {

void Executor::warm_up(int64_t step) {
  std::map<int, at::Tensor> buffers;  // that the model updates in each forward
  for (const BufferUpdate& update : model_.graph.updates) {
    if (!store_->indices().contains(update.tensor)) continue;
    buffers[update.tensor] = store_->tensor(update.tensor).clone();
  }
  const auto dry = make_dry(communicator_);
  exchange_.use(*dry);
  begin(step);
  device_.fail_without_memory(false);
  for (size_t i = 0; i < actions().size(); ++i) {
    const Kind kind = actions()[i].kind;
    if (kind != Kind::reduce_grad && kind != Kind::optimizer) run(i, actions()[i]);
    exchange_.enqueued(i);
  }
  exchange_.finish_step();
  for (auto& [index, stage] : stages_) stage->finish_step();
  communicator_.synchronise();
  exchange_.use(communicator_);
  const at::NoGradGuard no_grad;
  for (const auto& [index, kept] : buffers) store_->tensor(index).copy_(kept);
  outputs_.clear();
  losses_.clear();
  store_->clear_gradients();
}

}  // namespace penstock
