#include "launch/own_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

namespace penstock {

namespace fs = std::filesystem;

namespace {

/// A file's only number; nothing where it has none, as where there is no limit.
std::optional<int64_t> number_in(const fs::path& path) {
  int64_t number = 0;
  if (std::ifstream(path) >> number) return number;
  return std::nullopt;
}

/// The number behind a name, in a file of lines of a name and a number each.
std::optional<int64_t> number_of(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  int64_t number = 0;
  for (std::string found; file >> found;) {
    if (found == name && file >> number) return number;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

fs::path own_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return {};
}

}  // namespace

int64_t left_by_groups(const fs::path& groups, const fs::path& group, int64_t most) {
  for (fs::path at = group;; at = at.parent_path()) {
    const auto limit = number_in(groups / at / "memory.max");
    const auto taken = number_in(groups / at / "memory.current");
    // Files that the kernel keeps in memory give way.
    const int64_t files = number_of(groups / at / "memory.stat", "inactive_file").value_or(0);
    if (limit && taken) most = std::min(most, std::max<int64_t>(0, *limit - *taken + files));
    if (at.empty() || at == at.parent_path()) return most;
  }
}

int64_t available_memory_bytes() {
  constexpr int64_t kilobyte = 1024;
  const auto available = number_of("/proc/meminfo", "MemAvailable:");
  if (!available) throw std::runtime_error("/proc/meminfo says nothing of MemAvailable");
  return left_by_groups("/sys/fs/cgroup", own_group(), *available * kilobyte);
}

}  // namespace penstock
