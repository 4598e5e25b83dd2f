// What hosts take that issue work to a device which runs behind them.
#pragma once

#include "backend/profiler/subject.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// Seconds that the host takes to issue F and B of one microbatch: the least of so many.
constexpr int issue_passes = 3;
double issue_s(Subject& subject, int64_t microbatch);

/// Every time of a host becomes `scale` of it.
void scale_hosts(ActionTimes& times, double scale);
void scale_hosts(MicrobatchCosts& costs, double scale);

}  // namespace penstock::profiler
