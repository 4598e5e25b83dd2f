#include "pipeline/job/concatenation.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace penstock {

Concatenation::Concatenation(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    files_.emplace_back(path);
    size_ += files_.back().size_bytes();
  }
}

void Concatenation::read(int64_t offset, std::span<std::byte> destination) const {
  for (const InputFile& file : files_) {
    if (offset < file.size_bytes() && !destination.empty()) {
      const auto run = std::min<size_t>(file.size_bytes() - offset, destination.size());
      file.read(offset, destination.first(run));
      destination = destination.subspan(run);
      offset = 0;
    } else {
      offset -= std::min(offset, file.size_bytes());
    }
  }
}

std::pair<std::string, int64_t> Concatenation::locate(int64_t offset) const {
  auto file = files_.begin();
  for (; offset >= file->size_bytes(); ++file) offset -= file->size_bytes();
  return {file->path(), offset};
}

std::string Concatenation::str() const {
  if (files_.size() == 1) return files_.front().path();
  return fmt::format("{} and {} more", files_.front().path(), files_.size() - 1);
}

}  // namespace penstock
