// What the backward of each operator needs of its forward, as PyTorch's derivatives.yaml says it.
#pragma once

#include <vector>

#include "estimate/model.hpp"

namespace penstock {

struct SavedForBackward {
  std::vector<ValueId> values;  // read or produced; each once
  int64_t own_bytes = 0;        // of tensors that are no values: statistics, masks, log-sum-exps
};

/// Nothing where the operator has no backward. `cuda`: on the GPU a dropout keeps a byte per
/// element, on the CPU the factors. Operators that are not known are taken to keep what they read.
SavedForBackward saved_for_backward(const EstimateModel& model, const Operator& op, int64_t batch,
                                    bool cuda);

}  // namespace penstock
