// `penstock profile --device estimate`: a profile from the figures of a device, without one.
#pragma once

#include "cli/command_line/commands.hpp"

namespace penstock::cli {

/// Writes the profile and prints it, and the fit where one was asked for. Nothing is started.
/// Throws InputError.
int estimate_profile(const ProfileOptions& options);

}  // namespace penstock::cli
