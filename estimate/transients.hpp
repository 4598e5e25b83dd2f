// The bytes held while the whole model runs forward and back, operator by operator.
#pragma once

#include <vector>

#include "estimate/kept.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

/// The change of the bytes held in F, by operator: values are dropped after their last reader,
/// unless somebody keeps them.
std::vector<MemoryChange> forward_changes(const EstimateModel& model, const KeptMemory& kept,
                                          int64_t batch);

/// The change of those held in B, from the last operator to the first: gradients come into being
/// and, handed on unchanged, count once; what is gathered again is there from the first operator
/// that needs it to the last; what an operator kept is freed with the first operator that keeps it;
/// gradients of parameters last until they are added to the stored ones.
std::vector<MemoryChange> backward_changes(const EstimateModel& model, const KeptMemory& kept,
                                           Loss loss, int64_t batch);

/// Bytes of the gradients of an operator's parameters.
int64_t weight_gradient_bytes(const EstimateModel& model, const Operator& op, int64_t batch);

}  // namespace penstock
