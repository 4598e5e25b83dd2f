#include "cli/report/table.hpp"

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
/// hyphen.
size_t line_end(const std::string& text, size_t most) {
  const size_t end = bytes_of(text, std::max<size_t>(most, 1));
  if (const size_t blank = text.find_last_of(' ', end); blank != std::string::npos && blank > 0)
    return blank;
  const size_t dot = text.find_last_of(".-", end - 1);
  return dot == std::string::npos ? end : dot + 1;
}

std::vector<std::string> broken(std::string text, size_t most) {
  std::vector<std::string> lines;
  while (width(text) > most) {
    const size_t at = line_end(text, most);
    lines.push_back(text.substr(0, at));
    text.erase(0, text.find_first_not_of(' ', at));
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
  while (line_width(cells) > columns) {
    size_t* widest = nullptr;
    for (size_t c = 0; c < cells.size(); ++c) {
      if (left_[c] && cells[c] > least_width && (!widest || cells[c] > *widest)) widest = &cells[c];
    }
    if (!widest) break;
    --*widest;
  }
  return cells;
}

std::string Table::text(int columns) const {
  const std::vector<size_t> widths = this->widths(static_cast<size_t>(std::max(columns, 0)));
  std::string text;
  for (const auto& row : rows_) {
    std::vector<std::vector<std::string>> cells;
    size_t lines = 1;
    for (size_t c = 0; c < row.size(); ++c) {
      cells.push_back(broken(row[c], widths[c]));
      lines = std::max(lines, cells.back().size());
    }
    for (size_t i = 0; i < lines; ++i) {
      std::string line;
      for (size_t c = 0; c < row.size(); ++c) {
        const std::string cell = i < cells[c].size() ? cells[c][i] : "";
        const std::string blanks(widths[c] - width(cell), ' ');
        line += std::string(gap, ' ') + (left_[c] ? cell + blanks : blanks + cell);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + '\n';
    }
  }
  return text;
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
