// Files read as if they were one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/input_file.hpp"

namespace penstock {

class Concatenation {
 public:
  /// Throws InputError for a file that cannot be opened.
  explicit Concatenation(const std::vector<std::string>& paths);

  const std::vector<InputFile>& files() const { return files_; }
  int64_t size_bytes() const { return size_; }
  /// Fills `destination` from byte `offset`; all of it lies before the end.
  void read(int64_t offset, std::span<std::byte> destination) const;
  /// The file that has this byte, and its offset there.
  std::pair<std::string, int64_t> locate(int64_t offset) const;
  /// For messages: the first file, and how many more.
  std::string str() const;

 private:
  std::vector<InputFile> files_;
  int64_t size_ = 0;
};

}  // namespace penstock
