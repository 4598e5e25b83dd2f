// The report of `penstock profile`.
#pragma once

#include <string>

#include "pipeline/profile/profile.hpp"

namespace penstock::cli {

/// The device, each microbatch size with the step it would make on one device, the `top` most
/// expensive operators at the size with the fastest step, the links and the probe.
/// `parameter_bytes`: of the model's trainable parameters. Ends with a newline.
std::string profile_report(const Profile& profile, int64_t parameter_bytes, int top);

}  // namespace penstock::cli
