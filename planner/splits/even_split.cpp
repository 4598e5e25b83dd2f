#include "planner/splits/even_split.hpp"

#include <algorithm>
#include <numeric>

namespace penstock {

namespace {

/// Where the sums of `load` pass what the first k ranks should have: errors do not add up along the
/// chain.
std::vector<int> one_stage_per_rank(const std::vector<double>& load,
                                    const std::vector<double>& shares) {
  const int stages = static_cast<int>(shares.size());
  double wanted = shares.front();
  const double all = std::accumulate(load.begin(), load.end(), 0.0);
  const int units = static_cast<int>(load.size());
  std::vector<int> begins{0};
  double sum = 0;
  for (int unit = 0; unit < units && static_cast<int>(begins.size()) < stages; ++unit) {
    const int made = static_cast<int>(begins.size());
    const double unit_load = load[static_cast<size_t>(unit)];
    const bool last_chance = units - unit == stages - made;
    const bool passed = sum + unit_load / 2 >= all * wanted;
    if (unit > begins.back() && (last_chance || passed)) {
      begins.push_back(unit);
      wanted += shares[static_cast<size_t>(made)];
    }
    sum += unit_load;
  }
  return begins;
}

using StageBytesOf = std::function<int64_t(int stage, int begin, int end)>;

/// Ways to divide units into stages that stay within a limit: for each stage and each unit that may
/// follow it, the first begin that the stage may have; -1: none.
using FirstBegins = std::vector<std::vector<int>>;

FirstBegins within(int units, int stages, int64_t limit, const StageBytesOf& bytes) {
  FirstBegins first(static_cast<size_t>(stages),
                    std::vector<int>(static_cast<size_t>(units) + 1, -1));
  for (int stage = 0; stage < stages; ++stage) {
    const auto s = static_cast<size_t>(stage);
    int end = stage;  // of the stage: it grows with its begin
    for (int begin = stage; begin < (stage == 0 ? 1 : units); ++begin) {
      if (stage > 0 && first[s - 1][static_cast<size_t>(begin)] < 0) continue;
      end = std::max(end, begin);
      while (end < units && bytes(stage, begin, end + 1) <= limit) {
        first[s][static_cast<size_t>(++end)] = begin;
      }
    }
  }
  return first;
}

}  // namespace

std::vector<int> even_memory_split(int units, int stages, const StageBytesOf& bytes) {
  int64_t enough = 0;  // the largest of all stages
  for (int stage = 0; stage < stages; ++stage) enough = std::max(enough, bytes(stage, 0, units));
  int64_t too_little = -1;
  while (enough - too_little > 1) {
    const int64_t limit = too_little + (enough - too_little) / 2;
    const bool all = within(units, stages, limit, bytes).back().back() >= 0;
    (all ? enough : too_little) = limit;
  }
  const FirstBegins first = within(units, stages, enough, bytes);
  std::vector<int> begins(static_cast<size_t>(stages));
  int end = units;
  for (size_t stage = begins.size(); stage-- > 0;) {
    begins[stage] = end = first[stage][static_cast<size_t>(end)];
  }
  return begins;
}

std::vector<int> even_split(const std::vector<double>& load, const std::vector<int>& rank_of_stage,
                            const RankSpeeds& speeds) {
  const int stages = static_cast<int>(rank_of_stage.size());
  const int units = static_cast<int>(load.size());
  const int ranks = speeds.ranks();
  const auto share = [&](int rank) {
    return speeds.relative()[static_cast<size_t>(rank)] / speeds.together();
  };
  if (ranks == stages) {
    std::vector<double> shares;
    shares.reserve(rank_of_stage.size());
    for (const int rank : rank_of_stage) shares.push_back(share(rank));
    return one_stage_per_rank(load, shares);
  }
  const double all = std::accumulate(load.begin(), load.end(), 0.0);
  std::vector<double> has(static_cast<size_t>(ranks), 0.0);
  std::vector<int> stages_of(static_cast<size_t>(ranks), 0), begins;
  int unit = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const auto rank = static_cast<size_t>(rank_of_stage[static_cast<size_t>(stage)]);
    const double wanted = all * share(static_cast<int>(rank)) * ++stages_of[rank] * ranks / stages;
    begins.push_back(unit);
    const int last = units - (stages - stage - 1);  // the others need one each
    do {
      has[rank] += load[static_cast<size_t>(unit++)];
    } while (unit < last && has[rank] + load[static_cast<size_t>(unit)] / 2 < wanted);
  }
  return begins;
}

}  // namespace penstock
