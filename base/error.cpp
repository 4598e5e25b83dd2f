#include "base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace penstock {

namespace {

/// A value from a file must neither end the message nor command the terminal: control characters
/// other than line ends are written out, as `\x1b`.
std::string visible(std::string_view message) {
  std::string text;
  for (const char c : message) {
    const bool control = static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    if (control && c != '\n') {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      text += c;
    }
  }
  return text;
}

std::string compose(std::string_view place, std::string_view problem, std::string_view cure) {
  std::string message(place);
  if (!message.empty()) message += ": ";
  message += problem;
  if (!cure.empty()) message.append("\n  ").append(cure);
  return message;
}

/// Levenshtein distance.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row.back();
}

}  // namespace

InputError::InputError(std::string_view place, std::string_view problem, std::string_view cure)
    : std::runtime_error(visible(compose(place, problem, cure))) {}

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string best = nearest(name, candidates);
  return best.empty() ? "" : "Did you mean " + best + "?";
}

}  // namespace penstock
