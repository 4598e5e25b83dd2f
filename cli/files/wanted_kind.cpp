#include "cli/files/wanted_kind.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"

namespace penstock::cli {

namespace {

namespace fs = std::filesystem;

/// How to come by a file of that kind, from one that is `given` where a command makes it of that.
std::string cure(FileKind wanted, FileKind given, const std::string& path) {
  const auto of = [&](FileKind kind, const char* otherwise) {
    return given == kind ? path : std::string(otherwise);
  };
  switch (wanted) {
    case FileKind::model:
      return fmt::format("Make one: tools/export_model.py {} -o model.pt2",
                         of(FileKind::python, "my_model.py"));
    case FileKind::job:
      return given == FileKind::model
                 ? fmt::format("Write a job that names it (docs/files.md): `model: {}`.", path)
                 : "Write one (docs/files.md); configs/jobs has examples.";
    case FileKind::profile:
      return fmt::format("Make one: penstock profile {} -o profile.json",
                         of(FileKind::job, "job.yaml"));
    case FileKind::plan:
      return given == FileKind::job
                 ? fmt::format(
                       "Make one: penstock profile {} -o profile.json, then penstock plan "
                       "profile.json -o plan.yaml",
                       path)
                 : fmt::format("Make one: penstock plan {} -o plan.yaml",
                               of(FileKind::profile, "profile.json"));
    case FileKind::trace:
      return fmt::format(
          "Make one: penstock simulate {0} --trace predicted.json, or penstock "
          "execute {0} --trace measured.json",
          of(FileKind::plan, "plan.yaml"));
    case FileKind::program:
      return fmt::format("Make one: penstock export {} --format torch-csv -o schedule.csv",
                         of(FileKind::plan, "plan.yaml"));
    case FileKind::checkpoint:
      return given == FileKind::manifest
                 ? fmt::format("Give its folder: {}", fs::path(path).parent_path().string())
                 : fmt::format("Make one: penstock execute {} --save DIR",
                               of(FileKind::plan, "plan.yaml"));
    case FileKind::safetensors:
      return "Save its tensors with safetensors.torch.save_file; data may also be texts and .bin.";
    case FileKind::cluster: return "Write one (docs/files.md); configs/clusters has examples.";
    case FileKind::layers:
      return "Write one (docs/files.md): the costs of each layer, as configs/layers has them.";
    case FileKind::device: return "Write one (docs/files.md); configs/devices has examples.";
    default: return "";
  }
}

bool is_among(FileKind kind, const std::vector<FileKind>& kinds) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

/// The cure for the first of several kinds, unless the file is part of another, or `show` has it.
std::string cure(const std::vector<FileKind>& wanted, FileKind given, const std::string& path) {
  if (given == FileKind::manifest && is_among(FileKind::checkpoint, wanted)) {
    return cure(FileKind::checkpoint, given, path);
  }
  if (given == FileKind::page && wanted.size() > 2) return "Open it in a browser.";
  return cure(wanted.front(), given, path);
}

/// `a job`, `a job or a plan`, `a job, a plan or a trace`.
std::string names(const std::vector<FileKind>& kinds) {
  std::vector<std::string> list;
  for (const FileKind kind : kinds) {
    if (kind != FileKind::folder) list.push_back(name(kind));
  }
  const std::string last = list.back();
  list.pop_back();
  return list.empty() ? last : fmt::format("{} or {}", fmt::join(list, ", "), last);
}

}  // namespace

std::string name(FileKind kind) {
  switch (kind) {
    case FileKind::model: return "a model";
    case FileKind::job: return "a job";
    case FileKind::plan: return "a plan";
    case FileKind::cluster: return "a cluster";
    case FileKind::device: return "a device";
    case FileKind::profile: return "a profile";
    case FileKind::layers: return "a table of layers";
    case FileKind::trace: return "a trace";
    case FileKind::program: return "a program (CSV)";
    case FileKind::checkpoint: return "a checkpoint";
    case FileKind::manifest: return "a checkpoint's manifest";
    case FileKind::safetensors: return "a .safetensors";
    case FileKind::torch_save: return "what torch.save wrote";
    case FileKind::page: return "a page (HTML)";
    case FileKind::python: return "Python code of a model";
    case FileKind::folder: return "a folder";
    case FileKind::empty: return "empty";
    case FileKind::other: break;
  }
  return "a file of another kind";
}

void require_kind(const fs::path& path, const std::string& taker,
                  const std::vector<FileKind>& wanted) {
  const FileKind given = file_kind(path);
  if (given == FileKind::other || is_among(given, wanted)) return;
  throw InputError(path.string(),
                   fmt::format("is {}; {} takes {}", name(given), taker, names(wanted)),
                   cure(wanted, given, path.string()));
}

}  // namespace penstock::cli
