// The probes before, between and after the measurements of a profile, summarized as one.
#pragma once

#include <vector>

#include "backend/device/device.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// Mean times, and as spread the larger relative range of the two: the machine's drift. `probes` is
/// not empty.
Probe combine(const std::vector<Probe>& probes);

/// Probes until two in a row agree to one part in fifty, fifty times at most: a GPU raises its
/// clocks under load and lowers them when it is hot. The CPU's are taken as they are.
void settle_clocks(ComputeDevice& device);

}  // namespace penstock::profiler
