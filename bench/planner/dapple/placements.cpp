// DAPPLE's policies for giving devices to stages.
#include <algorithm>
#include <set>
#include <utility>

#include "bench/planner/dapple/dapple.hpp"

namespace penstock::bench {

namespace {

enum class Policy { fresh_first, append_first, scatter_first };

/// Adds `need` devices to `taken`, beside those `used` before; false where the policy has too few.
bool take(const std::vector<int>& machines, const std::vector<int>& used, int need, Policy policy,
          std::vector<int>& taken) {
  const std::vector<int> before = taken;
  const auto left = [&](size_t i) { return machines[i] - used[i] - taken[i]; };
  if (policy == Policy::scatter_first) {
    for (bool some = true; need > 0 && some;) {
      some = false;
      for (size_t i = 0; i < machines.size() && need > 0; ++i) {
        if (left(i) == 0) continue;
        ++taken[i];
        --need;
        some = true;
      }
    }
    return need == 0;
  }
  for (size_t i = 0; i < machines.size(); ++i) {
    const bool fresh = used[i] + before[i] == 0;
    if (fresh != (policy == Policy::fresh_first)) continue;
    const int count = std::min(need, left(i));
    taken[i] += count;
    need -= count;
  }
  return need == 0;
}

}  // namespace

std::vector<std::vector<int>> dapple_placements(const std::vector<int>& machines,
                                                const std::vector<int>& used, int need,
                                                int rounds) {
  std::set<std::vector<int>> ways = {std::vector<int>(machines.size())};
  for (int round = 0; round < rounds; ++round) {
    std::set<std::vector<int>> longer;
    for (const std::vector<int>& taken : ways) {
      for (const Policy policy :
           {Policy::fresh_first, Policy::append_first, Policy::scatter_first}) {
        std::vector<int> now = taken;
        if (take(machines, used, need, policy, now)) longer.insert(std::move(now));
      }
    }
    ways = std::move(longer);
  }
  return {ways.begin(), ways.end()};
}

}  // namespace penstock::bench
