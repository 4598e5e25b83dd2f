#include "cli/report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <stdexcept>

namespace penstock::cli {

namespace {

/// A column that is broken keeps at least so many characters.
constexpr size_t least_width = 12;
constexpr size_t gap = 2;

bool begins_character(char c) { return (c & 0xC0) != 0x80; }

/// Columns on the screen: bytes that do not continue a UTF-8 character.
size_t width(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(text, begins_character));
}

/// Where `text` has to end to have that many characters.
size_t bytes_of(const std::string& text, size_t characters) {
  size_t end = 0;
  for (; end < text.size(); ++end) {
    if (begins_character(text[end]) && characters-- == 0) break;
  }
  return end;
}

/// Where the first line of at most that many characters ends: at a blank, else behind a dot or a
/// hyphen; in any case after `indent`.
size_t line_end(const std::string& text, size_t most, size_t indent) {
  const size_t end = bytes_of(text, std::max<size_t>(most, indent + 1));
  if (const size_t blank = text.find_last_of(' ', end);
      blank != std::string::npos && blank > indent)
    return blank;
  const size_t dot = text.find_last_of(".-", end - 1);
  return dot == std::string::npos || dot < indent ? end : dot + 1;
}

/// Lines that begin with the blanks that the text begins with.
std::vector<std::string> broken(std::string text, size_t most) {
  const size_t indent = std::min(text.find_first_not_of(' '), most / 2);
  std::vector<std::string> lines;
  while (width(text) > most) {
    const size_t at = line_end(text, most, indent);
    lines.push_back(text.substr(0, at));
    text.erase(0, text.find_first_not_of(' ', at));
    text.insert(0, indent, ' ');
  }
  lines.push_back(std::move(text));
  return lines;
}

size_t longest_word(const std::string& text) {
  std::istringstream words(text);
  size_t longest = 0;
  for (std::string word; words >> word;) longest = std::max(longest, width(word));
  return longest;
}

size_t line_width(const std::vector<size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), gap * widths.size());
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

std::vector<size_t> Table::widths(size_t columns) const {
  std::vector<size_t> cells(left_.size(), 0), all;
  for (const auto& row : rows_) {
    if (&row == &rows_.front()) continue;
    for (size_t c = 0; c < row.size(); ++c) cells[c] = std::max(cells[c], width(row[c]));
  }
  for (size_t c = 0; c < cells.size(); ++c)
    all.push_back(std::max(cells[c], width(rows_.front()[c])));
  if (columns == 0 || line_width(all) <= columns) return all;
  for (size_t c = 0; c < cells.size(); ++c)
    cells[c] = std::max(cells[c], longest_word(rows_.front()[c]));
  std::vector<size_t> narrow = cells;
  while (line_width(narrow) > columns) {
    size_t* widest = nullptr;
    for (size_t c = 0; c < narrow.size(); ++c) {
      if (left_[c] && narrow[c] > least_width && (!widest || narrow[c] > *widest))
        widest = &narrow[c];
    }
    if (widest) {
      --*widest;
      continue;
    }
    // Columns follow below in any case, where there is room for them.
    for (size_t c = 0; c < cells.size(); ++c)
      if (left_[c]) cells[c] = std::min(cells[c], std::max(least_width, columns / 3));
    return cells;
  }
  return narrow;
}

std::string Table::lines(const std::vector<std::string>& row, const std::vector<size_t>& columns,
                         const std::vector<size_t>& widths) const {
  std::vector<std::vector<std::string>> cells;
  size_t count = 1;
  for (const size_t c : columns) {
    cells.push_back(broken(row[c], widths[c]));
    count = std::max(count, cells.back().size());
  }
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    std::string line;
    for (size_t k = 0; k < columns.size(); ++k) {
      const size_t c = columns[k];
      const std::string cell = i < cells[k].size() ? cells[k][i] : "";
      const std::string blanks(widths[c] - width(cell), ' ');
      line += std::string(gap, ' ') + (left_[c] ? cell + blanks : blanks + cell);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string Table::text(size_t columns, size_t rows) const {
  const std::vector<size_t> widths = this->widths(columns);
  const size_t shown = std::min(rows, rows_.size() - 1);
  std::string text;
  for (size_t next = 0; next < widths.size();) {
    std::vector<size_t> part(next > 0 ? 1 : 0, 0);
    size_t wide = next > 0 ? widths[0] + gap : 0;
    do {
      wide += widths[next] + gap;
      part.push_back(next++);
    } while (next < widths.size() && (columns == 0 || wide + widths[next] + gap <= columns));
    if (!text.empty()) text += '\n';
    for (size_t row = 0; row <= shown; ++row) text += lines(rows_[row], part, widths);
  }
  const size_t more = rows_.size() - 1 - shown;
  return more > 0 ? text + fmt::format("  … and {} more (--verbose)\n", more) : text;
}

std::string Table::text(int columns) const {
  return text(static_cast<size_t>(std::max(columns, 0)), SIZE_MAX);
}

std::string Table::text(const ReportStyle& style) const {
  return text(static_cast<size_t>(std::max(style.columns, 0)), style.rows());
}

std::string wrapped(const std::string& text, int columns) {
  std::string lines;
  for (const std::string& line : broken(text, columns > 0 ? size_t(columns) : text.size()))
    lines += line + '\n';
  return lines;
}

std::string labelled(const std::string& label, const std::string& text, int columns) {
  constexpr size_t indent = 11;
  const size_t most = columns > 0 ? std::max<size_t>(columns, 2 * indent) - indent : text.size();
  std::string lines;
  for (const std::string& line : broken(text, most)) {
    const std::string& start = lines.empty() ? label : "";
    lines += start + std::string(indent - std::min(indent - 1, start.size()), ' ') + line + '\n';
  }
  return lines;
}

}  // namespace penstock::cli
