#include "cli/report/progress_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/report/terminal.hpp"

namespace penstock::cli {

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) != 0) {}
ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::clear() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  drawn_ = false;
}

void ProgressLine::show(double share, const std::string& what) {
  if (!terminal_) return;
  const std::chrono::duration<double> elapsed = Clock::now() - start_;
  const int columns = terminal_columns(STDERR_FILENO);
  const std::string text = progress_text(share, elapsed.count(), what);
  fmt::print(stderr, "\r\033[K{}",
             columns > 0 ? text.substr(0, static_cast<size_t>(columns) - 1) : text);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressLine::message(const std::string& text) {
  clear();
  fmt::print(stderr, "{}\n", text);
}

std::string progress_text(double share, double elapsed_s, const std::string& what) {
  constexpr int width = 20;
  share = std::clamp(share, 0.0, 1.0);
  const int full = static_cast<int>(share * width);
  std::string left;
  if (share >= 0.02) {
    const auto seconds = std::llround(elapsed_s * (1 - share) / share);
    left = fmt::format("  {}:{:02} left", seconds / 60, seconds % 60);
  }
  return fmt::format("[{}{}] {:>3.0f} %{}  {}", std::string(full, '='),
                     std::string(width - full, '-'), 100 * share, left, what);
}

}  // namespace penstock::cli
