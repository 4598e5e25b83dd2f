// The files that a file names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/files/file_kind.hpp"

namespace penstock::cli {

struct NamedFile {
  std::filesystem::path path;
  std::string key;  // under which it is named
  FileKind kind;    // that belongs there; `other`: any
};

/// A plan names its job's model and data, its profile, cluster and program; a job or a profile the
/// job's. As far as they are there. Throws InputError where `path` cannot be read.
std::vector<NamedFile> named_files(const std::filesystem::path& path);

}  // namespace penstock::cli
