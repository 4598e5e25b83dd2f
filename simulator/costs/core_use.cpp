#include "simulator/costs/core_use.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>

namespace penstock {

namespace {

/// The core of each process, or -1 where it computes by itself.
using CoreOfProcess = std::vector<int>;

/// On nodes with cores they take turns; the nodes' cores are numbered one after the other.
CoreOfProcess on_nodes(const Cluster& cluster, int processes) {
  CoreOfProcess cores(static_cast<size_t>(processes), -1);
  if (cluster.nodes.empty()) return cores;
  std::map<int, int> on_node, first_core;  // by node
  int numbered = 0;
  for (int process = 0; process < processes; ++process) {
    const Cluster::Place place = cluster.place(process);
    if (place.kind->cores == 0) continue;
    if (first_core.try_emplace(place.node, numbered).second) numbered += place.kind->cores;
    const int number = on_node[place.node]++;
    cores[static_cast<size_t>(process)] = first_core[place.node] + number % place.kind->cores;
  }
  return cores;
}

CoreOfProcess on_machine(int cores, int processes) {
  CoreOfProcess result(static_cast<size_t>(processes), -1);
  if (cores == 0 || processes <= cores) return result;
  for (int process = 0; process < processes; ++process)
    result[static_cast<size_t>(process)] = process % cores;
  return result;
}

/// The cores that each rank had while it was profiled: less than one where those of the profile
/// outnumbered its cores.
double profiled_cores(const DeviceInfo& device) {
  const auto ranks = device.details.find("ranks");
  const double count =
      ranks == device.details.end() ? 1 : std::max(1, std::atoi(ranks->second.c_str()));
  return std::min<double>(device.threads, device.cores / count);
}

}  // namespace

CoreUse core_use(const Profile& profile, const Cluster* cluster, int ranks, int64_t replicas,
                 int64_t parts) {
  const int of_rank = cluster ? 1 : static_cast<int>(parts);
  const int processes = ranks * static_cast<int>(replicas) * of_rank;
  const int cores = profile.device.cores;
  const CoreOfProcess of_process =
      cluster ? on_nodes(*cluster, processes) : on_machine(cores, processes);
  CoreUse use;
  if (!cluster && cores > 0) {
    const int each = std::max(1, cores / processes);
    use.speed = std::min(each, profile.device.threads) / profiled_cores(profile.device);
  }
  if (std::ranges::all_of(of_process, [](int core) { return core < 0; })) return use;
  use.of_rank.resize(static_cast<size_t>(ranks));
  for (size_t process = 0; process < of_process.size(); ++process) {
    if (of_process[process] < 0) continue;
    use.of_rank[process / of_rank % static_cast<size_t>(ranks)].push_back(of_process[process]);
  }
  return use;
}

double ranks_at_full_speed(const Profile& profile, const Cluster* cluster, int64_t replicas) {
  if (cluster || profile.device.cores == 0) return std::numeric_limits<double>::infinity();
  return profile.device.cores / profiled_cores(profile.device) / static_cast<double>(replicas);
}

}  // namespace penstock
