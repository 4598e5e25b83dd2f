// A file that grows record by record while others read it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace penstock {

/// Every member throws InputError with the system's reason.
class AppendedFile {
 public:
  /// Makes the file, or cuts the one that is there to its first `kept` bytes. A pipe, a terminal or
  /// /dev/null is written to as it is.
  explicit AppendedFile(const std::filesystem::path& path, int64_t kept = 0);
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;
  ~AppendedFile();

  /// Readers see the record when it returns; where it throws, nothing of it stays in the file.
  void append(std::string_view record);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace penstock
