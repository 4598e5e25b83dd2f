#include "simulator/memory_limit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "pipeline/quantity.hpp"

namespace penstock {

MemoryLimit device_memory(const Profile& profile, const Cluster* cluster, int ranks) {
  if (cluster && cluster->memory_bytes > 0) return {cluster->memory_bytes, cluster->path};
  const int64_t device = profile.device.memory_bytes;
  if (device <= 0) return {};
  const int64_t sharing = profile.device.kind == "cpu" && !cluster ? ranks : 1;
  const std::string source =
      sharing > 1
          ? fmt::format("{} of this machine, shared by {} ranks", format_bytes(device), ranks)
          : fmt::format("{} of the profiled device", format_bytes(device));
  return {std::max<int64_t>(device / sharing - profile.base_memory_bytes, 0), source};
}

}  // namespace penstock
