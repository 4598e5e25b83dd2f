// The cores that this process may run on.
#pragma once

#include <set>

namespace penstock {

/// Ids of logical cores; empty where the system does not tell.
std::set<int> own_cores();

}  // namespace penstock
