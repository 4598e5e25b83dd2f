#include "cli/report/step_progress.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/quantity.hpp"

namespace penstock::cli {

namespace {

std::string time_text(const StepRecord& record) { return format_seconds(record.step_s) + "/step"; }

std::string rate_text(const StepRecord& record) {
  const int digits = record.per_s < 10 ? 2 : 0;
  return fmt::format("{:.{}f} {}/s", record.per_s, digits, record.unit);
}

/// One of many lines, in columns.
std::string line_text(const StepRecord& record, int64_t last) {
  std::string text = fmt::format("step {:>{}}/{}", record.step, std::to_string(last).size(), last);
  if (record.loss) text += fmt::format("   loss {:<9.6g}", *record.loss);
  if (record.gradient_norm) text += fmt::format("   gradient {:<9.4g}", *record.gradient_norm);
  return text + "   " + time_text(record) + "   " + rate_text(record);
}

/// The line that is drawn over itself: first what a narrow terminal should show.
std::string drawn_text(const StepRecord& record, int64_t last) {
  std::string text = fmt::format("step {}/{}", record.step, last);
  if (record.loss) text += fmt::format("  loss {:.6g}", *record.loss);
  text += "  " + time_text(record);
  if (record.gradient_norm) text += fmt::format("  gradient {:.4g}", *record.gradient_norm);
  return text + "  " + rate_text(record);
}

}  // namespace

StepProgress::StepProgress(int64_t first_step, int64_t steps)
    : first_(first_step + 1),
      last_(first_step + steps),
      every_(std::max<int64_t>(1, steps / 100)) {}

/// At the pace since the first step, which also has the time between steps.
double StepProgress::left_s(const StepRecord& record) {
  const Clock::time_point now = Clock::now();
  if (record.step == first_) first_ended_ = now;
  const std::chrono::duration<double> since_first = now - first_ended_;
  const int64_t done = record.step - first_;
  const double each_s = done > 0 ? since_first.count() / static_cast<double>(done) : record.step_s;
  return each_s * static_cast<double>(last_ - record.step);
}

void StepProgress::show(const StepRecord& record) {
  const double left = left_s(record);
  const bool last = record.step == last_;
  if ((record.step - first_) % every_ == 0 || last) line_.message(line_text(record, last_));
  if (last) return;
  const auto done = static_cast<double>(record.step - first_ + 1);
  line_.show(done / static_cast<double>(last_ - first_ + 1), left, drawn_text(record, last_));
}

void StepProgress::show(const Validated& validated) {
  line_.message(fmt::format("step {:>{}}/{}   validation loss {:.6g}", validated.step,
                            std::to_string(last_).size(), last_, validated.loss));
}

}  // namespace penstock::cli
