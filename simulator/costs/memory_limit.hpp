// How much memory ranks may use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/profile/profile.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock {

/// The limit of each rank's predicted peak.
struct MemoryLimit {
  int64_t max_bytes = INT64_MAX;  // of the ranks that may use most; INT64_MAX: none
  std::vector<int64_t> reserved_bytes =
      {};                   // by rank: how much less it may use; empty: all the same
  std::string source = {};  // for people

  bool any() const { return max_bytes != INT64_MAX; }
  int64_t reserved_of(int rank) const {
    return reserved_bytes.empty() ? 0 : reserved_bytes[static_cast<size_t>(rank)];
  }
  int64_t of(int rank) const { return max_bytes - reserved_of(rank); }
  /// Bytes on the fullest rank, where what is reserved on a rank counts as used: a plan that fits
  /// has at most max_bytes.
  int64_t fullest(const std::vector<int64_t>& peaks) const;
};

/// The limit of ranks that may use so many bytes; INT64_MAX: any number.
MemoryLimit memory_limit(const std::vector<int64_t>& of_ranks, std::string source = {});

/// The limit of the cluster's devices: a rank has what the least of its replicas has. None where
/// the cluster says nothing of memory.
MemoryLimit cluster_memory(const Cluster& cluster, int ranks, int64_t replicas);

/// The limit of devices: the cluster's, or the profiled one. Ranks of a CPU run share the machine's
/// memory; every worker also takes what it holds before it loads a stage, and on a GPU what its
/// lanes take, to as many neighbours as a chain of stages has.
MemoryLimit device_memory(const Profile& profile, const Cluster* cluster, int ranks,
                          int64_t replicas, int64_t parts = 1);

/// `80.0 GB`, or `40.0 GB to 80.0 GB`.
std::string format(const MemoryLimit& limit);

}  // namespace penstock
