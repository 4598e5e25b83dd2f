// One line of progress on a terminal, drawn over itself: share done and time left.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace penstock::cli {

/// Draws on standard error where that is a terminal, or a program sets PENSTOCK_PROGRESS to read
/// it; otherwise nothing.
class ProgressLine {
 public:
  ProgressLine();
  /// Clears the line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// `share` in [0, 1] is done; the rest takes `left_s`, or else as long in proportion, which is
  /// not told while less than 2 % is done.
  void show(double share, const std::string& what);
  void show(double share, std::optional<double> left_s, const std::string& what);
  /// Prints a message above the line, on a terminal or not.
  void message(const std::string& text);

 private:
  void clear();
  using Clock = std::chrono::steady_clock;
  const bool terminal_;
  const Clock::time_point start_ = Clock::now();
  bool drawn_ = false;
};

}  // namespace penstock::cli
