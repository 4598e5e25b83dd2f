// A study as the simulators take it.
#pragma once

#include "bench/measure.hpp"
#include "pipeline/program/program.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/network/network.hpp"

namespace penstock::bench {

Program build_compute(const Study& study);
/// The same, lowered.
Program build_program(const Study& study);
Costs build_costs(const Program& program);
Network build_network(const Study& study);

}  // namespace penstock::bench
