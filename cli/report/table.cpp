#include "cli/report/table.hpp"

#include <algorithm>
#include <stdexcept>

namespace penstock::cli {

namespace {

/// Columns on the screen: bytes that do not continue a UTF-8 character.
size_t width(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

Table::Table(std::vector<std::string> headings) {
  for (std::string& heading : headings) {
    const bool left = heading.starts_with('<');
    left_.push_back(left);
    if (left) heading.erase(0, 1);
  }
  rows_.push_back(std::move(headings));
}

void Table::row(std::vector<std::string> cells) {
  if (cells.size() != left_.size()) throw std::invalid_argument("a row of another width");
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<size_t> widths(left_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string blanks(widths[c] - width(row[c]), ' ');
      line += "  " + (left_[c] ? row[c] + blanks : blanks + row[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace penstock::cli
