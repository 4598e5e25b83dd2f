// The paths on a command line, and what is checked of all of them before the command runs.
#pragma once

#include <string>
#include <vector>

#include "cli/files/file_kind.hpp"

namespace penstock::cli {

/// How a command uses a path.
enum class PathUse { input, output_file, output_folder };

struct GivenPath {
  std::string flag;  // or the name of a positional argument: `PLAN.yaml`
  PathUse use = PathUse::input;
  std::string path;
  std::vector<FileKind> kinds = {};  // of an input: what the command takes; empty: anything
};

/// Throws InputError, naming flags and paths, for
/// - an empty path, as an unset variable leaves it;
/// - an input of another kind than the command takes, or that names one of another kind than it
///   needs there;
/// - an output that cannot be written, or would change a checkpoint;
/// - two outputs that are one file;
/// - an output that is one of the inputs, or a file that those name in turn (a plan its profile and
///   its model), also by another name: a link to it.
/// An input that is not there is left to its reader. Nothing is left behind.
void check_paths(const std::string& command, const std::vector<GivenPath>& paths);

/// Throws InputError where `path`, which a worker writes, is this process's standard output: that
/// has the report, and a worker has another one. Empty: nothing is written.
void check_no_standard_output(const char* flag, const std::string& path);

}  // namespace penstock::cli
