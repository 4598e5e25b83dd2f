#include "cli/report/ending.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/report/table.hpp"

namespace penstock::cli {

std::string ending(const std::vector<std::string>& written, const std::string& next) {
  std::string text;
  if (!written.empty()) text += labelled("written", fmt::format("{}", fmt::join(written, ", ")));
  if (!next.empty()) text += labelled("next", next);
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
