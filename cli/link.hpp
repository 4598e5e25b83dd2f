// penstock profile --link: what a message between two ranks costs, as a cluster file.
#pragma once

#include "cli/command_line/commands.hpp"

namespace penstock::cli {

/// Ranks 0 and 1 of the launcher that started this process, or of this machine. Rank 0 writes the
/// cluster: `options.ranks` or the launcher's number of ranks, joined by that link. The exit
/// status. Throws InputError.
int measure_link(const ProfileOptions& options);

}  // namespace penstock::cli
