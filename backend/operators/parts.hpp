// A tensor cut into the parts that the ranks of a tensor group hold (graph/sharding/layout.hpp),
// and put together again.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "graph/sharding/layout.hpp"

namespace penstock::sharding {

/// The part of a whole tensor that `part` holds, contiguous and in memory of its own; the tensor
/// itself where each rank has it whole. The layout fits.
at::Tensor own_part(const at::Tensor& whole, const Layout& layout, int parts, int part);

/// The whole tensor, of what each part holds of it; what part 0 holds where that is all of it.
at::Tensor assembled(const std::vector<at::Tensor>& held, const Layout& layout);

/// Indices into a dimension that is split, as indices into what a part has of it.
struct OwnIndex {
  at::Tensor index;  // 0 where it is another part's
  at::Tensor found;  // is it this part's?
};
/// `split` is of dimension 0, of that size.
OwnIndex own_index(const at::Tensor& indices, int64_t size, const Layout& split, int parts,
                   int part);

/// A whole tensor of zeros but for what the part holds.
at::Tensor among_zeros(const at::Tensor& own, const Layout& split, int parts, int part);

}  // namespace penstock::sharding
