// The flags of `penstock plan` that make it a sweep.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/command_line/commands.hpp"

namespace penstock::cli {

class Declared;

/// `--sweep`, beside which there need be no `output`, and `--json`.
void declare_sweep(Declared& command, PlanOptions& options, CLI::Option& output);

/// After parsing: the flags that were given and their values, without those that choose what is
/// printed or written.
std::vector<std::string> given_words(const CLI::App& app);

}  // namespace penstock::cli
