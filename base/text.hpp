// Helpers for text.
#pragma once

#include <string_view>

namespace penstock {

/// Without blanks, tabs and carriage returns at both ends.
inline std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace penstock
