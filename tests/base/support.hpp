// Shared by the tests: error messages, damaged texts, temporary files.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// The message of the InputError that `call` throws; "" if it throws none.
std::string input_error(const std::function<void()>& call);

/// `count` damaged versions of a text: cut short, or with some characters replaced, doubled or
/// lost. The same for the same arguments.
std::vector<std::string> damaged(const std::string& text, int count);

/// A folder that is deleted with its contents at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  /// Writes a file and returns its path.
  std::filesystem::path write(const std::string& name, std::string_view content) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace penstock
