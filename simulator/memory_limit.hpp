// How much memory a rank may use.
#pragma once

#include <cstdint>
#include <string>

#include "pipeline/profile.hpp"
#include "simulator/cluster.hpp"

namespace penstock {

struct MemoryLimit {
  int64_t bytes = INT64_MAX;  // per rank; INT64_MAX: none
  std::string source;         // for people
};

/// Of a rank's predicted peak: the cluster's, or the profiled device's. Ranks of a CPU run share the
/// machine's memory; every worker also takes what it holds before it loads a stage.
MemoryLimit device_memory(const Profile& profile, const Cluster* cluster, int ranks);

}  // namespace penstock
