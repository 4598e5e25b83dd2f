#include "simulator/costs/memory_limit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/quantity.hpp"

namespace penstock {

namespace {

/// Bytes of a rank without a limit beside others that have one: more than any device has, with
/// room to add to.
constexpr int64_t boundless = int64_t{1} << 60;

/// The least of its replicas' devices.
int64_t of_rank(const Cluster& cluster, int rank, int ranks, int64_t replicas) {
  int64_t least = INT64_MAX;
  for (int64_t replica = 0; replica < replicas; ++replica) {
    const int64_t bytes = cluster.memory(static_cast<int>(replica) * ranks + rank);
    if (bytes > 0) least = std::min(least, bytes);
  }
  return least;
}

bool alike(const Cluster& cluster) {
  return std::ranges::all_of(cluster.nodes, [&](const NodeKind& node) {
    return node.memory_bytes == cluster.nodes.front().memory_bytes;
  });
}

bool has_memory(const Cluster& cluster) {
  return cluster.memory_bytes > 0 ||
         std::ranges::any_of(cluster.nodes, [](const auto& node) { return node.memory_bytes > 0; });
}

/// Lane ends of a rank between two others, to and from which it has a lane each.
int64_t lane_ends(int ranks) { return int64_t{2} * std::min(2, ranks - 1); }

}  // namespace

int64_t MemoryLimit::fullest(const std::vector<int64_t>& peaks) const {
  int64_t bytes = 0;
  for (size_t rank = 0; rank < peaks.size(); ++rank) {
    bytes = std::max(bytes, peaks[rank] + reserved_of(static_cast<int>(rank)));
  }
  return bytes;
}

MemoryLimit memory_limit(const std::vector<int64_t>& of_ranks, std::string source) {
  const auto [least, most] = std::ranges::minmax(of_ranks);
  if (least == most) return {.max_bytes = most, .source = std::move(source)};
  MemoryLimit limit{.max_bytes = std::min(most, boundless), .source = std::move(source)};
  for (const int64_t bytes : of_ranks)
    limit.reserved_bytes.push_back(limit.max_bytes - std::min(bytes, limit.max_bytes));
  return limit;
}

MemoryLimit cluster_memory(const Cluster& cluster, int ranks, int64_t replicas) {
  if (!has_memory(cluster)) return {};
  if (alike(cluster)) return {.max_bytes = cluster.memory(0), .source = cluster.path};
  std::vector<int64_t> bytes;
  bytes.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    bytes.push_back(of_rank(cluster, rank, ranks, replicas));
  }
  return memory_limit(bytes, cluster.path);
}

MemoryLimit device_memory(const Profile& profile, const Cluster* cluster, int ranks,
                          int64_t replicas, int64_t parts) {
  if (cluster && has_memory(*cluster)) return cluster_memory(*cluster, ranks, replicas);
  const int64_t device = profile.device.memory_bytes;
  if (device <= 0) return {};
  const int64_t all = ranks * replicas * parts;
  const int64_t sharing = profile.device.kind == "cpu" && !cluster ? all : 1;
  const std::string source =
      sharing > 1 ? fmt::format("{} of this machine, shared by {} ranks", format_bytes(device), all)
                  : fmt::format("{} of the profiled device", format_bytes(device));
  const int64_t lanes = profile.links.empty() ? 0 : profile.links.front().lane_bytes;
  const int64_t taken = profile.base_memory_bytes + lane_ends(ranks) * lanes;
  return {.max_bytes = std::max<int64_t>(device / sharing - taken, 0), .source = source};
}

std::string format(const MemoryLimit& limit) {
  if (limit.reserved_bytes.empty()) return format_bytes(limit.max_bytes);
  return fmt::format(
      "{} to {}", format_bytes(limit.max_bytes - *std::ranges::max_element(limit.reserved_bytes)),
      limit.max_bytes == boundless ? "any number" : format_bytes(limit.max_bytes));
}

}  // namespace penstock
