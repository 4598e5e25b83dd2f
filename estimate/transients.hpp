// Transient memory: what a unit needs only while it runs.
#pragma once

#include <vector>

#include "estimate/kept.hpp"
#include "graph/cuts/cuts.hpp"

namespace penstock {

/// For each operator of a unit the bytes that the unit has while the operator runs, above the
/// larger of what it holds before and after its F (values are dropped after their last reader).
std::vector<int64_t> forward_transients(const EstimateModel& model, const KeptMemory& kept,
                                        const Unit& unit, int64_t batch);

/// The same for its B, from the last operator to the first: gradients come into being and, handed
/// on unchanged, count once; what an operator kept is freed with the first operator that keeps it;
/// gradients of parameters last until they are added to the stored ones.
std::vector<int64_t> backward_transients(const EstimateModel& model, const KeptMemory& kept,
                                         const Unit& unit, Loss loss, int64_t batch);

}  // namespace penstock
