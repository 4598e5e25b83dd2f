// Cross entropy where each rank of a tensor group has some of the classes: the operator
// `penstock::cross_entropy_of_classes` of graph/sharding/collectives.hpp, with its gradient.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "graph/sharding/layout.hpp"

namespace penstock {

/// Beside the targets, as at::cross_entropy_loss has it.
struct CrossEntropy {
  std::optional<at::Tensor> weight;  // of all classes
  int64_t reduction = at::Reduction::Mean;
  int64_t ignore_index = -100;
  double label_smoothing = 0;
};

/// The loss of logits of which this rank has those of its classes, `held` so, on each rank; all
/// ranks of the thread's group call it in one order. Targets are numbers of all `classes`. Autograd
/// saves the rank's probabilities. Throws c10::IndexError for a target on the CPU that is no class.
at::Tensor cross_entropy_of_classes(const at::Tensor& logits, const at::Tensor& target,
                                    const CrossEntropy& how, int64_t classes,
                                    const sharding::Layout& held);

}  // namespace penstock
