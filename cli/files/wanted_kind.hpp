// Kinds of files in messages, and the commands that make them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/files/file_kind.hpp"

namespace penstock::cli {

/// With its article: `a profile`.
std::string name(FileKind kind);

/// Throws InputError if the file is known to be of another kind than all of those: what it is, what
/// `taker` (`plan`, `--cluster`) takes, and the command that makes that. `other` passes, for the
/// reader to say what is wrong.
void require_kind(const std::filesystem::path& path, const std::string& taker,
                  const std::vector<FileKind>& wanted);

}  // namespace penstock::cli
