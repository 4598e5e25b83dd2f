// Why the layouts that were not chosen lost.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/plan.hpp"
#include "planner/search_case.hpp"

namespace penstock {

/// The fastest of each schedule and shape of ranks that is not the chosen layout's, whatever its
/// number of microbatches; the fastest `count` of these, in this order.
std::vector<Alternative> alternatives(const SearchCase& of, size_t chosen, size_t count);

}  // namespace penstock
