// The steps of a run, as they end.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "cli/metrics/step_record.hpp"
#include "cli/report/execute_report.hpp"
#include "cli/report/progress_line.hpp"

namespace penstock::cli {

/// Each step's loss, time and what is left, drawn on a terminal; and as lines of their own, at most
/// about 100 of a run. To standard error.
class StepProgress {
 public:
  StepProgress(int64_t first_step, int64_t steps);
  void show(const StepRecord& record);
  /// Always a line of its own.
  void show(const Validated& validated);
  void message(const std::string& text) { line_.message(text); }

 private:
  using Clock = std::chrono::steady_clock;
  double left_s(const StepRecord& record);

  ProgressLine line_;
  int64_t first_, last_, every_;     // steps, the first of a job is 1
  Clock::time_point first_ended_{};  // when the first step ended
};

}  // namespace penstock::cli
