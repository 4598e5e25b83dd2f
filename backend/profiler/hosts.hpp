// Times of hosts that issue work to a device that runs behind them.
#pragma once

#include "backend/profiler/subject.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// Seconds that the host takes to issue F and B of one microbatch: the minimum of a few runs.
constexpr int kIssuePasses = 3;
double issue_s(Subject& subject, int64_t microbatch);

/// Multiplies every time of a host by `scale`.
void scale_hosts(ActionTimes& times, double scale);
void scale_hosts(MicrobatchCosts& costs, double scale);

}  // namespace penstock::profiler
