// The cost of a plan that does not exist.
#pragma once

#include <limits>

namespace penstock::bench {

constexpr double infinite = std::numeric_limits<double>::infinity();

}  // namespace penstock::bench
