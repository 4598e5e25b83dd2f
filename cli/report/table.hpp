// Columns of text that line up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::cli {

/// How a report is laid out.
struct ReportStyle {
  int columns = 0;  // of the terminal; 0: lines may be of any length
  bool verbose = false;

  /// The rows shown of a table with one for each rank or stage.
  size_t rows() const { return verbose ? SIZE_MAX : 16; }
};

class Table {
 public:
  /// A heading that begins with `<` (not printed) aligns its column to the left, others to the
  /// right.
  explicit Table(std::vector<std::string> headings);

  /// As many cells as there are headings.
  void row(std::vector<std::string> cells);
  /// Two blanks between columns and before the first, no blanks at the end; a line per row where
  /// that is no wider than `columns` (0: however wide). Else headings are broken at their blanks,
  /// and then cells of the widest columns that are aligned to the left, at blanks, dots or hyphens;
  /// columns that do not fit even so follow below an empty line, beside the first column again.
  std::string text(int columns = 0) const;
  /// The first rows that the style shows, and how many more there are.
  std::string text(const ReportStyle& style) const;

 private:
  std::string text(size_t columns, size_t rows) const;
  std::vector<size_t> widths(size_t columns) const;
  std::string lines(const std::vector<std::string>& row, const std::vector<size_t>& columns,
                    const std::vector<size_t>& widths) const;

  std::vector<bool> left_;
  std::vector<std::vector<std::string>> rows_;
};

/// The text in lines of at most `columns` (0: one line), broken at blanks.
std::string wrapped(const std::string& text, int columns);

/// `step       3.1 s predicted`: a line that begins with a label, broken at blanks where it is
/// longer than `columns` (0: never).
std::string labelled(const std::string& label, const std::string& text, int columns = 0);

}  // namespace penstock::cli
