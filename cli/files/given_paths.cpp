#include "cli/files/given_paths.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.hpp"
#include "base/output_file.hpp"
#include "cli/files/named_files.hpp"
#include "cli/files/wanted_kind.hpp"
#include "pipeline/checkpoint/checkpoint.hpp"

namespace penstock::cli {

namespace {

namespace fs = std::filesystem;

std::string shown(const GivenPath& given) { return fmt::format("{} {}", given.flag, given.path); }

/// Standard output, a pipe, /dev/null: several may write to one.
bool is_device(const fs::path& path) {
  std::error_code none;
  return fs::is_other(path, none);
}

/// Where the output will lie.
fs::path place_of(const GivenPath& output) {
  const fs::path path = output.path;
  const bool folder = output.use == PathUse::output_folder;
  return fs::weakly_canonical(fs::absolute(folder ? path : written_path(path)));
}

/// Files of a checkpoint are known by their hashes, and all of them are read.
void check_no_checkpoint(const GivenPath& given, const fs::path& folder) {
  if (!is_checkpoint(folder)) return;
  throw InputError(shown(given), fmt::format("{} is a checkpoint", folder.string()),
                   "Write outside of it.");
}

void check_output(const GivenPath& given) {
  if (given.use == PathUse::output_folder) {
    check_writable_folder(given.path);
    check_no_checkpoint(given, given.path);
    return;
  }
  check_writable(given.path);
  if (!is_device(given.path)) check_no_checkpoint(given, place_of(given).parent_path());
}

void check_distinct(const GivenPath& output, const GivenPath& other) {
  if (is_device(output.path) || place_of(output) != place_of(other)) return;
  throw InputError(shown(output), fmt::format("is the same file as {}", shown(other)),
                   "Give each a file of its own.");
}

/// A file that the command reads, and the argument that leads to it.
struct ReadFile {
  fs::path path;
  std::string shown;
};

/// Tensors that PyTorch alone reads would be taken for text.
void check_data(const fs::path& path, const std::string& taker) {
  const FileKind kind = file_kind(path);
  const bool text = kind != FileKind::model && kind != FileKind::torch_save &&
                    kind != FileKind::folder && kind != FileKind::checkpoint;
  if (!text) require_kind(path, taker, {FileKind::safetensors});
}

/// The input and what it names, each of the kind that belongs there.
std::vector<ReadFile> read_files(const std::string& command, const GivenPath& input) {
  std::error_code none;
  if (!fs::exists(input.path, none)) return {};
  const bool flag = input.flag.starts_with('-');
  if (!input.kinds.empty()) require_kind(input.path, flag ? input.flag : command, input.kinds);
  std::vector<ReadFile> files{{input.path, shown(input)}};
  for (const NamedFile& file : named_files(input.path)) {
    const std::string taker = fmt::format("`{}` in {}", file.key, input.path);
    if (file.kind != FileKind::other) require_kind(file.path, taker, {file.kind});
    if (file.kind == FileKind::other) check_data(file.path, taker);
    files.push_back({file.path, fmt::format("{}, {}", file.path.string(), taker)});
  }
  return files;
}

void check_not_read(const GivenPath& output, const ReadFile& file) {
  std::error_code none;
  if (output.use == PathUse::output_folder || is_device(output.path)) return;
  if (!fs::equivalent(output.path, file.path, none)) return;
  throw InputError(shown(output),
                   fmt::format("is the same file as {}, which would be lost", file.shown),
                   "Write to another file.");
}

}  // namespace

void check_paths(const std::string& command, const std::vector<GivenPath>& paths) {
  for (const GivenPath& given : paths) {
    if (!given.path.empty()) continue;
    throw InputError(given.flag, "an empty path", "Give one; is a variable not set?");
  }
  std::vector<ReadFile> read;
  for (const GivenPath& given : paths) {
    if (given.use != PathUse::input) continue;
    const std::vector<ReadFile> files = read_files(command, given);
    read.insert(read.end(), files.begin(), files.end());
  }
  std::vector<GivenPath> outputs;
  for (const GivenPath& given : paths) {
    if (given.use == PathUse::input) continue;
    check_output(given);
    for (const ReadFile& file : read) check_not_read(given, file);
    for (const GivenPath& other : outputs) check_distinct(given, other);
    outputs.push_back(given);
  }
}

void check_no_standard_output(const char* flag, const std::string& path) {
  std::error_code none;
  if (path.empty() || !is_standard_output(path)) return;
  if (std::filesystem::equivalent(path, "/dev/null", none)) return;
  throw InputError(flag, fmt::format("{} is standard output, which has the report", path),
                   "Give the name of a file.");
}

}  // namespace penstock::cli
