// The flags of each command, as CLI11 has them: flags.cpp and arguments.cpp alone include it.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace penstock::cli {

/// Declares a command's flags; the result carries the command out with what was parsed. It returns
/// the exit status.
std::function<int()> declare_profile(CLI::App& app);
std::function<int()> declare_plan(CLI::App& app);
std::function<int()> declare_simulate(CLI::App& app);
std::function<int()> declare_execute(CLI::App& app);
std::function<int()> declare_compare(CLI::App& app);
std::function<int()> declare_export(CLI::App& app);
std::function<int()> declare_show(CLI::App& app);

}  // namespace penstock::cli
