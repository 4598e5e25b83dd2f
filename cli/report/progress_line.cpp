#include "cli/report/progress_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/text.hpp"
#include "cli/report/terminal.hpp"

namespace penstock::cli {

namespace {

/// `1:12`, and from an hour on `2:01:12`.
std::string clock_text(double time_s) {
  const int64_t seconds = std::llround(time_s);
  const int64_t minutes = seconds / 60;
  if (minutes < 60) return fmt::format("{}:{:02}", minutes, seconds % 60);
  return fmt::format("{}:{:02}:{:02}", minutes / 60, minutes % 60, seconds % 60);
}

/// `[====------]  40 %  1:12 left  microbatch 4`
std::string progress_text(double share, std::optional<double> left_s, const std::string& what) {
  constexpr int width = 10;
  share = std::clamp(share, 0.0, 1.0);
  const int full = static_cast<int>(share * width);
  const std::string left = left_s ? fmt::format("  {} left", clock_text(*left_s)) : "";
  return fmt::format("[{}{}] {:>3.0f} %{}  {}", std::string(full, '='),
                     std::string(width - full, '-'), 100 * share, left, what);
}

}  // namespace

ProgressLine::ProgressLine()
    : terminal_(isatty(STDERR_FILENO) != 0 || std::getenv("PENSTOCK_PROGRESS") != nullptr) {}
ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::clear() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  drawn_ = false;
}

void ProgressLine::show(double share, const std::string& what) {
  const std::chrono::duration<double> elapsed = Clock::now() - start_;
  std::optional<double> left_s;
  if (share >= 0.02) left_s = elapsed.count() * (1 - share) / share;
  show(share, left_s, what);
}

void ProgressLine::show(double share, std::optional<double> left_s, const std::string& what) {
  if (!terminal_) return;
  const int columns = terminal_columns(STDERR_FILENO);
  const std::string text = progress_text(share, left_s, what);
  const size_t most = columns > 0 ? static_cast<size_t>(columns) - 1 : text.size();
  fmt::print(stderr, "\r\033[K{}", first_bytes(text, most));
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressLine::message(const std::string& text) {
  clear();
  fmt::print(stderr, "{}\n", text);
}

}  // namespace penstock::cli
