// The probes before, between and after the measurements of a profile, summarized as one.
#pragma once

#include <vector>

#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// Mean times, and as spread the larger relative range of the two: the machine's drift. `probes` is
/// not empty.
Probe combine(const std::vector<Probe>& probes);

}  // namespace penstock::profiler
