// What a device would have taken for actions whose work its host had issued in time.
//
// Between two events on a stream lies also what the device waited for the host, which a GPU does
// while it runs a small model alone, and less so in a pipeline, where its host is ahead. So from
// the device's own records each kernel counts from the end of the one before it, gaps of the
// device's own included; or from its start, where its call returned only after that end: then the
// gap was the host's.
#pragma once

#include <vector>

#include "backend/device/device.hpp"

namespace penstock::profiler {

/// When the host issued an action.
struct IssueWindow {
  double begin_s = 0, end_s = 0;
};

/// Seconds of each window: of the kernels whose calls began in it. Windows are ascending and do not
/// overlap; kernels come in any order. What began in none counts nowhere.
std::vector<double> running_s(std::vector<Kernel> kernels, const std::vector<IssueWindow>& windows);

}  // namespace penstock::profiler
