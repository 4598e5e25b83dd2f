// The profile's description of the machine that was measured.
#pragma once

#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// Name, memory, threads of this process, and in `details`: ranks, cores, LibTorch and kernel.
DeviceInfo cpu_info(int ranks);

/// Bytes available in the system, and resident in this process; from /proc.
int64_t available_bytes();
int64_t resident_bytes();

}  // namespace penstock::profiler
