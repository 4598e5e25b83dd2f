// Paths in files are relative to the file that names them; in memory they are absolute.
#pragma once

#include <filesystem>
#include <string>

namespace penstock {

/// The path that `text` in `file` names: absolute, symbolic links in folders resolved, the name
/// itself kept (its extension may matter). Throws InputError naming `file` for one that cannot be
/// looked up.
std::string absolute_path(const std::filesystem::path& file, const std::string& text);

/// `path` as seen from the folder of `file`; absolute_path reads it back as the same path. Absolute
/// where `file` is no regular file: who reads what goes through a pipe is elsewhere.
std::string relative_path(const std::filesystem::path& file, const std::string& path);

}  // namespace penstock
