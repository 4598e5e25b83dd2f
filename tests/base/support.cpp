#include "tests/base/support.hpp"

#include <stdlib.h>

#include <fstream>
#include <random>
#include <stdexcept>

#include "base/error.hpp"

namespace penstock {

std::string input_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> damaged(const std::string& text, int count) {
  static constexpr std::string_view odd = "{}[]:,-#&*!|>'\"%@`\n\t 09az~?";
  std::mt19937 random(11);
  std::vector<std::string> result;
  for (int i = 0; i < count; ++i) {
    std::string version = text;
    if (i % 3 == 0) version.resize(random() % text.size());
    for (int change = 0; change < i % 4 && !version.empty(); ++change) {
      const size_t at = random() % version.size();
      const char by = odd[random() % odd.size()];
      if (random() % 3 == 0) version.insert(at, 1, by);
      if (random() % 3 == 0) version.erase(at, 1);
      if (at < version.size()) version[at] = by;
    }
    result.push_back(version);
  }
  return result;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "penstock-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = std::filesystem::canonical(pattern);
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

std::filesystem::path TemporaryFolder::write(const std::string& name,
                                             std::string_view content) const {
  std::filesystem::path file = path_ / name;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
  return file;
}

}  // namespace penstock
