// `penstock profile --device estimate`: a profile from the figures of a device, without one.
#pragma once

#include "cli/command_line/commands.hpp"
#include "graph/graph.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::cli {

/// Prints the fit where one was asked for. Nothing is started. Throws InputError.
Profile estimated_profile(const ProfileOptions& options, const Job& job, const Graph& model);

}  // namespace penstock::cli
