// Labelled lines, one under the other.
#pragma once

#include <string>

#include "cli/report/table.hpp"

namespace penstock::cli {

class Lines {
 public:
  explicit Lines(int columns) : columns_(columns) {}
  /// Nothing for an empty text.
  void add(const std::string& label, const std::string& said) {
    if (!said.empty()) text_ += labelled(label, said, columns_);
  }
  const std::string& text() const { return text_; }

 private:
  int columns_;
  std::string text_;
};

}  // namespace penstock::cli
