// The probes of a profile, taken before, between and after its measurements, as one.
#pragma once

#include <vector>

#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// Mean times, and as spread the larger relative range of the two: how much the machine drifted.
/// `probes` is not empty.
Probe combine(const std::vector<Probe>& probes);

}  // namespace penstock::profiler
