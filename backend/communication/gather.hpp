// Gathers tensors that different ranks hold on rank 0, and sums numbers over all.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "backend/communication/communicator.hpp"

namespace penstock {

/// A tensor that one rank holds; all ranks list the same ones in the same order.
struct Piece {
  int owner = 0;
  std::vector<int64_t> shape;
  at::ScalarType type = at::kFloat;
};

/// Returns all pieces in order on rank 0, nothing on the others. `own(i)` gives piece i, which this
/// rank owns. Uses the tags from `first_tag` on. Throws PeerError.
std::vector<at::Tensor> gather_tensors(Communicator& communicator, const std::vector<Piece>& pieces,
                                       int first_tag, const std::function<at::Tensor(size_t)>& own);

/// Puts the sum over all ranks, which all call it, in place of each number. Throws PeerError.
void sum_over_all(Communicator& communicator, std::vector<double>& numbers);

}  // namespace penstock
