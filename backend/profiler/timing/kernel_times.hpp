// The time that a device would take for actions that its host issues in time.
//
// The time between two events on a stream includes waiting for the host: a GPU that runs a small
// model alone is launch-bound, less so in a pipeline, where its host runs ahead. So, by the
// device's own records, each kernel counts from the end of the one before it, gaps of the device's
// own included; or from its start, where its call returned only after that end: then the gap was
// the host's.
#pragma once

#include <vector>

#include "backend/device/device.hpp"

namespace penstock::profiler {

/// The period in which the host issued an action.
struct IssueWindow {
  double begin_s = 0, end_s = 0;
};

/// For each window the seconds of the kernels whose calls began in it. Windows are ascending and do
/// not overlap; kernels come in any order. A kernel whose call began in none is left out.
std::vector<double> running_s(std::vector<Kernel> kernels, const std::vector<IssueWindow>& windows);

}  // namespace penstock::profiler
