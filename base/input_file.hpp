// A file read at chosen positions, for data too large to hold.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace penstock {

class InputFile {
 public:
  /// Throws InputError if the file cannot be opened or is not a regular file.
  explicit InputFile(const std::filesystem::path& path);
  InputFile(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  int64_t size_bytes() const { return size_; }
  const std::string& path() const { return path_; }
  /// Fills `destination` from byte `offset`. Throws InputError if the file ends before that.
  void read(int64_t offset, std::span<std::byte> destination) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace penstock
