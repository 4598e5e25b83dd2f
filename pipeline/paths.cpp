// Resolves folders physically, so that `..` means what the file system means by it.
#include "pipeline/paths.hpp"

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

}  // namespace

std::string absolute_path(const fs::path& file, const std::string& text) {
  return resolved(fs::absolute(file).parent_path() / text).string();
}

std::string relative_path(const fs::path& file, const std::string& path) {
  const fs::path folder = fs::weakly_canonical(fs::absolute(file).parent_path());
  return resolved(path).lexically_relative(folder).string();
}

}  // namespace penstock
