#include "pipeline/weights/state_files.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/json.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// The index or the one file of a folder; any other path as it is.
fs::path file_at(const fs::path& path) {
  std::error_code none;
  if (!fs::is_directory(path, none)) return path;
  for (const char* name : {"model.safetensors.index.json", "model.safetensors"})
    if (fs::exists(path / name, none)) return path / name;
  throw InputError(path.string(),
                   "holds neither model.safetensors.index.json nor model.safetensors",
                   "Name the .safetensors, or the index of its shards.");
}

}  // namespace

StateFiles::StateFiles(const fs::path& path) {
  const fs::path file = file_at(path);
  path_ = file.string();
  if (file.extension() == ".json") {
    read_index(file);
  } else {
    const SafetensorsFile& only = open(file);
    for (const auto& [name, entry] : only.entries()) tensors_[name] = &only;
  }
}

const SafetensorsFile& StateFiles::open(const fs::path& path) {
  auto& file = files_[path];
  if (!file) file = std::make_unique<SafetensorsFile>(path);
  return *file;
}

void StateFiles::read_index(const fs::path& path) {
  const nlohmann::json document = read_json(path);
  const JsonValue index(document, path_);
  const JsonValue map = index.at("weight_map");
  for (const std::string& name : map.keys()) {
    const JsonValue shard = map.at(name);
    const fs::path file = shard.text();
    if (file.empty() || file.has_parent_path() || file == "..")
      shard.refuse(fmt::format("'{}' is not the name of a file", file.string()),
                   "Shards lie beside their index.");
    const SafetensorsFile& opened = open(path.parent_path() / file);
    if (!opened.entries().contains(name))
      shard.refuse(fmt::format("{} has no '{}'", opened.path(), name), "Download it again.");
    tensors_[name] = &opened;
  }
}

}  // namespace penstock
