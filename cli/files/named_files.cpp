#include "cli/files/named_files.hpp"

#include <nlohmann/json.hpp>

#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::cli {

namespace {

namespace fs = std::filesystem;

std::vector<NamedFile> files_of(const Job& job) {
  std::vector<NamedFile> files{{job.model, "model", FileKind::model}};
  for (const std::string& data : job.data) files.push_back({data, "data", FileKind::other});
  if (!job.validation) return files;
  for (const std::string& data : job.validation->data)
    files.push_back({data, "validation data", FileKind::other});
  return files;
}

std::vector<NamedFile> files_of(const Plan& plan) {
  std::vector<NamedFile> files;
  if (plan.layers) {
    files.push_back({plan.profile->path, "table of layers", FileKind::layers});
  } else {
    files = files_of(plan.job);
  }
  if (plan.profile && !plan.layers)
    files.push_back({plan.profile->path, "profile", FileKind::profile});
  if (plan.cluster) files.push_back({plan.cluster->path, "cluster", FileKind::cluster});
  if (!plan.program.empty()) files.push_back({plan.program, "program", FileKind::program});
  return files;
}

std::vector<NamedFile> all_named_files(const fs::path& path) {
  switch (file_kind(path)) {
    case FileKind::job: return files_of(read_job(path));
    case FileKind::plan: return files_of(read_plan(path));
    case FileKind::profile: return files_of(read_profile_job(path));
    default: return {};
  }
}

}  // namespace

std::vector<NamedFile> named_files(const fs::path& path) {
  std::vector<NamedFile> files = all_named_files(path);
  std::error_code none;
  std::erase_if(files, [&](const NamedFile& file) { return !fs::exists(file.path, none); });
  return files;
}

}  // namespace penstock::cli
