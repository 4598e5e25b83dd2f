// Weights from elsewhere: a state dictionary's files, and which tensor of a model each name is.
//
// This file has the files: one .safetensors, or the shards of a Hugging Face index.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/safetensors.hpp"

namespace penstock {

class StateFiles {
 public:
  /// `path`: a .safetensors, an index (`model.safetensors.index.json`), or a folder that holds one
  /// of them. Reads headers alone. Throws InputError where it is none of these, and for a shard
  /// that is missing, lies elsewhere or lacks a tensor of the index.
  explicit StateFiles(const std::filesystem::path& path);

  const std::string& path() const { return path_; }
  /// The file that has each tensor, by the tensor's name.
  const std::map<std::string, const SafetensorsFile*>& tensors() const { return tensors_; }

 private:
  const SafetensorsFile& open(const std::filesystem::path& path);
  void read_index(const std::filesystem::path& path);

  std::string path_;
  std::map<std::filesystem::path, std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const SafetensorsFile*> tensors_;
};

}  // namespace penstock
