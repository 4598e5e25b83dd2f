// The last lines of a command: what it wrote, and which command follows.
#pragma once

#include <string>
#include <vector>

namespace penstock::cli {

/// `written    a, b` and `next       penstock …`, a line for each command; nothing where there is
/// nothing to say. Empty paths are left out. Lines are not broken, so that they can be copied.
std::string ending(const std::vector<std::string>& written, const std::vector<std::string>& next);

/// A path as a shell takes it.
std::string in_shell(const std::string& path);

}  // namespace penstock::cli
