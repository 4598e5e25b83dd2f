// A stored tensor's first values where its model's file has none.
#pragma once

#include <ATen/ATen.h>

#include "graph/pt2/initial_values.hpp"

namespace penstock {

/// Runs the steps, on the CPU so that every device gets the same bits; contiguous. Each draw has a
/// generator of its own, seeded from the export's seed and the draw's number: values depend on
/// neither the split, the ranks nor other tensors.
at::Tensor initial_tensor(const StoredTensor& stored, const InitialValues& values);

}  // namespace penstock
