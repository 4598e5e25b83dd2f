#include "backend/executor/kept_buffers.hpp"

#include <ATen/core/grad_mode.h>

namespace penstock {

KeptBuffers::KeptBuffers(const Graph& graph, TensorStore& store) : store_(store) {
  for (const BufferUpdate& update : graph.updates) {
    if (store.indices().contains(update.tensor))
      copies_[update.tensor] = store.tensor(update.tensor).clone();
  }
}

void KeptBuffers::restore() {
  const at::NoGradGuard no_grad;
  for (const auto& [tensor, copy] : copies_) store_.tensor(tensor).copy_(copy);
}

}  // namespace penstock
