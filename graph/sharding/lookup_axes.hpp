// The axes of calls that look elements up by their number.
#pragma once

#include "graph/sharding/axes.hpp"

namespace penstock::sharding {

/// Columns; rows, where those of others give zeros; ids.
std::vector<Axis> embedding_axes(const Call& call);
/// All dimensions; of `dim` the index is split.
std::vector<Axis> index_select_axes(const Call& call);
/// All dimensions but the one that is indexed, and those of the index; none with several indices.
std::vector<Axis> index_axes(const Call& call);
/// Dimensions but `dim` that index and source have at one length.
std::vector<Axis> gather_axes(const Call& call);

}  // namespace penstock::sharding
