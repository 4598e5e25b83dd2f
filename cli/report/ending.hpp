// The last lines of a command: what it wrote, and which command follows.
#pragma once

#include <string>
#include <vector>

namespace penstock::cli {

/// `written    a, b` and `next       penstock …`; a line each where there is something to say.
std::string ending(const std::vector<std::string>& written, const std::string& next);

/// A path as a shell takes it.
std::string in_shell(const std::string& path);

}  // namespace penstock::cli
