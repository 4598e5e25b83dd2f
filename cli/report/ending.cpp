#include "cli/report/ending.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "cli/report/table.hpp"

namespace penstock::cli {

std::string ending(const std::vector<std::string>& written, const std::vector<std::string>& next) {
  std::vector<std::string> paths;
  std::ranges::copy_if(written, std::back_inserter(paths),
                       [](auto& path) { return !path.empty(); });
  std::string text;
  if (!paths.empty()) text += labelled("written", fmt::format("{}", fmt::join(paths, ", ")));
  for (const std::string& command : next)
    text += labelled(&command == &next.front() ? "next" : "", command);
  return text;
}

std::string in_shell(const std::string& path) {
  const bool plain = path.find_first_not_of(
                         "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                         "0123456789_-./,:=+@%") == std::string::npos;
  if (plain && !path.empty()) return path;
  std::string quoted = "'";
  for (const char c : path) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace penstock::cli
