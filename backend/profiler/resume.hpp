// What an earlier run of the same profile already measured.
#pragma once

#include <string>
#include <vector>

#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// Costs in the file `partial` if it is there, whole, and of the same job, model, device, threads,
/// ranks and library as `now`; otherwise none.
std::vector<MicrobatchCosts> resume(const std::string& partial, const Profile& now);

}  // namespace penstock::profiler
