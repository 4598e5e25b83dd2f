// Helpers for text.
#pragma once

#include <fnmatch.h>

#include <string>
#include <string_view>

namespace penstock {

/// Without blanks, tabs and carriage returns at both ends.
inline std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// The first bytes of UTF-8, no more than so many, without the begin of a character.
inline std::string_view first_bytes(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return text.substr(0, most);
}

/// The same, and … where it is longer.
inline std::string shortened(std::string_view text, size_t most) {
  return std::string(first_bytes(text, most)) + (text.size() > most ? "…" : "");
}

/// In a pattern `*` stands for any text and `?` for a letter.
inline bool matches_text(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

/// The same for a name with dots: also where the pattern matches what comes before one of them.
inline bool matches_name(const std::string& pattern, const std::string& name) {
  return matches_text(pattern, name) || matches_text(pattern + ".*", name);
}

}  // namespace penstock
