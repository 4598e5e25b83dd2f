#include "backend/profiler/timing/kernel_times.hpp"

#include <algorithm>
#include <limits>

namespace penstock::profiler {
namespace {

/// The window that holds the time; windows.size() if none does.
size_t window_of(double time_s, const std::vector<IssueWindow>& windows) {
  const auto after = std::ranges::upper_bound(windows, time_s, {}, &IssueWindow::begin_s);
  if (after == windows.begin() || time_s > std::prev(after)->end_s) return windows.size();
  return static_cast<size_t>(std::prev(after) - windows.begin());
}

}  // namespace

std::vector<double> running_s(std::vector<Kernel> kernels,
                              const std::vector<IssueWindow>& windows) {
  std::ranges::sort(kernels, {}, &Kernel::start_s);
  std::vector<double> seconds(windows.size(), 0.0);
  double free_s = -std::numeric_limits<double>::infinity();  // everything before has run
  for (const Kernel& kernel : kernels) {
    const double from_s = kernel.issued_s > free_s ? kernel.start_s : free_s;
    const size_t window = window_of(kernel.called_s, windows);
    if (window < windows.size()) seconds[window] += std::max(0.0, kernel.end_s - from_s);
    free_s = std::max(free_s, kernel.end_s);
  }
  return seconds;
}

}  // namespace penstock::profiler
