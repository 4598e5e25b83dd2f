// Tensors that each operator saves for its backward, as in PyTorch's derivatives.yaml.
#pragma once

#include <vector>

#include "estimate/model.hpp"

namespace penstock {

struct SavedForBackward {
  std::vector<ValueId> values;  // read or produced; each once
  int64_t own_bytes = 0;        // tensors that are no values: statistics, masks, log-sum-exps
};

/// Nothing where the operator has no backward. `cuda`: on the GPU a dropout keeps a byte per
/// element, on the CPU the factors. Unknown operators are taken to save what they read.
SavedForBackward saved_for_backward(const EstimateModel& model, const Operator& op, int64_t batch,
                                    bool cuda);

}  // namespace penstock
