#include "simulator/explain/stage_ranks.hpp"

#include <algorithm>
#include <set>

namespace penstock {

StageRanks::StageRanks(const Timeline& timeline) {
  std::map<int, std::set<int>> found;
  for (const TimelineEvent& event : timeline)
    for_each_part(event.action, [&](const Action& part) { found[part.stage].insert(event.rank); });
  for (const auto& [stage, ranks] : found) ranks_[stage].assign(ranks.begin(), ranks.end());
}

int StageRanks::number(int stage, int rank) const {
  const auto known = ranks_.find(stage);
  if (known == ranks_.end()) return -1;
  const auto at = std::ranges::lower_bound(known->second, rank);
  const bool found = at != known->second.end() && *at == rank;
  return found ? static_cast<int>(at - known->second.begin()) : -1;
}

int StageRanks::rank(int stage, int number) const {
  const auto known = ranks_.find(stage);
  const bool found =
      known != ranks_.end() && number >= 0 && number < static_cast<int>(known->second.size());
  return found ? known->second[static_cast<size_t>(number)] : -1;
}

std::vector<int> StageRanks::first_ranks() const {
  std::vector<int> first;
  for (const auto& [stage, ranks] : ranks_) {
    if (stage < 0 || static_cast<size_t>(stage) > ranks_.size()) continue;  // a damaged trace
    first.resize(static_cast<size_t>(stage) + 1, -1);
    first.back() = ranks.front();
  }
  return first;
}

}  // namespace penstock
