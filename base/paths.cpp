// Resolves folders physically, so that `..` means what the file system means by it.
#include "base/paths.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace penstock {

namespace {

namespace fs = std::filesystem;

fs::path resolved(const fs::path& path) {
  const fs::path whole = fs::absolute(path);
  if (!whole.has_filename() || whole.filename() == ".." || whole.filename() == ".") {
    return fs::weakly_canonical(whole);
  }
  return fs::weakly_canonical(whole.parent_path()) / whole.filename();
}

/// Too long, a loop of links, a folder that may not be read, or a zero byte, which ends a name.
[[noreturn]] void refuse_path(const fs::path& file, const std::string& text,
                              const std::string& problem) {
  throw InputError(file.string(), fmt::format("the path `{}`: {}", text, problem),
                   "Give one that the system can look up.");
}

}  // namespace

std::string absolute_path(const fs::path& file, const std::string& text) {
  if (text.find('\0') != std::string::npos) refuse_path(file, text, "a zero byte in it");
  try {
    return resolved(fs::absolute(file).parent_path() / text).string();
  } catch (const fs::filesystem_error& error) {
    refuse_path(file, text, error.code().message());
  }
}

std::string relative_path(const fs::path& file, const std::string& path) {
  std::error_code none;
  if (fs::is_other(file, none)) return resolved(path).string();
  const fs::path folder = fs::weakly_canonical(fs::absolute(file).parent_path());
  return resolved(path).lexically_relative(folder).string();
}

}  // namespace penstock
