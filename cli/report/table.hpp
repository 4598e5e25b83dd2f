// Columns of text that line up.
#pragma once

#include <string>
#include <vector>

namespace penstock::cli {

class Table {
 public:
  /// A heading that begins with `<` (not printed) aligns its column to the left, others to the
  /// right.
  explicit Table(std::vector<std::string> headings);

  /// As many cells as there are headings.
  void row(std::vector<std::string> cells);
  /// Two blanks between columns and before the first, a line per row, no blanks at the end.
  std::string text() const;

 private:
  std::vector<bool> left_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace penstock::cli
