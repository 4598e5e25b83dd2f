// The report of `penstock profile`.
#pragma once

#include <string>

#include "pipeline/profile/profile.hpp"

namespace penstock::cli {

/// The device, each microbatch size with the step it would make on one device, the `top` most
/// expensive operators at the size with the fastest step, the links and the probe.
/// `parameter_bytes`: of the model's trainable parameters. Ends with a newline.
std::string profile_report(const Profile& profile, int64_t parameter_bytes, int top);

/// The note that `profile` and `plan` print on costs that are less sure than measured ones: an
/// estimate's (estimate/estimate.hpp), or that of a quick profile; empty for any other.
std::string costs_note(const Profile& profile);

}  // namespace penstock::cli
