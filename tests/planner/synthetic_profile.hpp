// A profile as the profiler would write it, with made-up but consistent costs: time follows from
// FLOPs and bytes, what is held from the sizes of the values.
#pragma once

#include <filesystem>
#include <vector>

#include "graph/graph.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::test {

struct SyntheticDevice {
  double flops_per_s = 2e9, bytes_per_s = 4e9, operator_s = 2e-6;
  double link_bytes_per_s = 1e9, link_latency_s = 5e-5;
  int64_t memory_bytes = int64_t{1} << 34;
  double host_s = 0;  // to issue an operator's forward, its I or its W; of B twice that
};

/// Sizes are microbatch sizes; the global batch is the largest of them unless given.
Profile synthetic_profile(const Graph& model, const std::vector<int64_t>& sizes,
                          int64_t global_batch, const SyntheticDevice& device = {});

/// Writes it to `path`, which becomes its own; reads it back, as a command would.
Profile written(Profile profile, const std::filesystem::path& path);

}  // namespace penstock::test
