// How a split tensor is split once it is viewed in another shape.
#pragma once

#include <optional>

#include "graph/sharding/layout.hpp"

namespace penstock::sharding {

/// The one split of `to` in which each rank holds the same elements, in the same order, as it does
/// of `from` split by `split`; nothing where there is none. Both shapes have equally many elements.
///
/// Row-major, a split is O times: a run of each part in turn, with O the sizes before its dimension
/// times its blocks. A view keeps the order of elements, and so O and the runs.
std::optional<Layout> view_split(const Layout& split, const Shape& from, const Shape& to,
                                 int parts);

}  // namespace penstock::sharding
