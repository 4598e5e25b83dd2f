// SimGrid's makespan of a program, in a process of its own.
#pragma once

#include <vector>

#include "tests/simgrid/child.hpp"
#include "tests/simgrid/replay.hpp"

namespace penstock::testing {

inline double simgrid_s(const Program& program, const Costs& costs, const Platform& platform) {
  return in_child([&] { return std::vector{simgrid_makespan_s(program, costs, platform)}; }).at(0);
}

}  // namespace penstock::testing
