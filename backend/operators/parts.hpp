// What the ranks of a tensor group hold of a tensor (graph/sharding/layout.hpp), cut out of the
// whole and put together.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "graph/sharding/layout.hpp"

namespace penstock::sharding {

/// What `part` holds of a whole tensor that is split, contiguous and in memory of its own; the
/// tensor itself where each rank has it whole. The layout fits.
at::Tensor own_part(const at::Tensor& whole, const Layout& layout, int parts, int part);

/// The whole tensor, of what each part holds of it; what part 0 holds where that is all of it.
at::Tensor assembled(const std::vector<at::Tensor>& held, const Layout& layout);

/// A whole tensor of zeros but for what the part holds.
at::Tensor among_zeros(const at::Tensor& own, const Layout& split, int parts, int part);

}  // namespace penstock::sharding
