// Resumes a profile from the measurements of an earlier run.
#pragma once

#include <string>
#include <vector>

#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// The costs in the file `partial`, if it exists, is complete, and has the same job, model, device,
/// threads, ranks and library as `now`, and is as quick; otherwise none.
std::vector<MicrobatchCosts> resume(const std::string& partial, const Profile& now);

}  // namespace penstock::profiler
