// Plans whose schedule is made for their costs.
#pragma once

#include <cstdint>

#include "pipeline/plan.hpp"

namespace penstock::cli {

/// For a plan with schedule `adaptive` fills in Plan::made, from its profile and cluster; leaves others
/// alone. The cap per rank is `memory_bytes`, or where that is 0 the cluster's or the device's memory.
/// Throws InputError without a profile, and where nothing fits.
void make_adaptive(Plan& plan, const Graph& model, const Slicing& slicing,
                   int64_t memory_bytes = 0);

}  // namespace penstock::cli
