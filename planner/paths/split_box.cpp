#include "planner/paths/split_box.hpp"

#include <algorithm>
#include <functional>

namespace penstock {

namespace {

/// Bounds on one number, which others raise and lower.
class Narrowing {
 public:
  void raise(int& low, int to) {
    if (to <= low) return;
    low = to;
    changed_ = true;
  }
  void lower(int& high, int to) {
    if (to >= high) return;
    high = to;
    changed_ = true;
  }
  bool changed() const { return changed_; }

 private:
  bool changed_ = false;
};

/// Begins and units of stages: what a stage has is the next begin less its own.
void by_begins(SplitBox& box, int units, Narrowing& change) {
  auto& [low, high] = box.begins;
  auto& [least, most] = box.stages;
  const size_t stages = low.size();
  for (size_t s = 0; s < stages; ++s) {
    const bool last = s + 1 == stages;
    const int end_low = last ? units : low[s + 1], end_high = last ? units : high[s + 1];
    change.raise(least[s], end_low - high[s]);
    change.lower(most[s], end_high - low[s]);
    change.raise(low[s], end_low - most[s]);
    change.lower(high[s], end_high - least[s]);
    if (last) continue;
    change.raise(low[s + 1], low[s] + least[s]);
    change.lower(high[s + 1], high[s] + most[s]);
  }
}

void by_ranks(SplitBox& box, const std::vector<int>& rank_of_stage, int units, Narrowing& change) {
  // All numbers but one together, at least and at most.
  const auto sums = [](const Ranges& of, const std::vector<int>& group, size_t groups) {
    std::pair both{std::vector<int>(groups, 0), std::vector<int>(groups, 0)};
    for (size_t i = 0; i < group.size(); ++i) {
      both.first[static_cast<size_t>(group[i])] += of.low[i];
      both.second[static_cast<size_t>(group[i])] += of.high[i];
    }
    return both;
  };
  const size_t ranks = box.ranks.low.size();
  const auto [least, most] = sums(box.stages, rank_of_stage, ranks);
  for (size_t r = 0; r < ranks; ++r) {
    change.raise(box.ranks.low[r], least[r]);
    change.lower(box.ranks.high[r], most[r]);
  }
  for (size_t s = 0; s < rank_of_stage.size(); ++s) {
    const auto r = static_cast<size_t>(rank_of_stage[s]);
    int &low = box.stages.low[s], &high = box.stages.high[s];
    const int others_least = least[r] - low, others_most = most[r] - high;
    change.raise(low, box.ranks.low[r] - others_most);
    change.lower(high, box.ranks.high[r] - others_least);
  }
  const auto [all_least, all_most] = sums(box.ranks, std::vector<int>(ranks, 0), 1);
  for (size_t r = 0; r < ranks; ++r) {
    int &low = box.ranks.low[r], &high = box.ranks.high[r];
    const int others_least = all_least[0] - low, others_most = all_most[0] - high;
    change.raise(low, units - others_most);
    change.lower(high, units - others_least);
  }
}

template <typename Box>
auto& divided_ranges(Box& box, Division::Of of) {
  if (of == Division::Of::ranks) return box.ranks;
  return of == Division::Of::stages ? box.stages : box.begins;
}

}  // namespace

bool Ranges::empty() const {
  return !std::equal(low.begin(), low.end(), high.begin(), std::less_equal());
}

bool tighten(SplitBox& box, const std::vector<int>& rank_of_stage, int units) {
  for (;;) {
    if (box.begins.empty() || box.stages.empty() || box.ranks.empty()) return false;
    Narrowing change;
    by_begins(box, units, change);
    by_ranks(box, rank_of_stage, units, change);
    if (!change.changed()) return true;
  }
}

bool divides(const Division& division, const SplitBox& box) {
  const Ranges& of = divided_ranges(box, division.of);
  const auto number = static_cast<size_t>(division.number);
  return of.low[number] <= division.last && division.last < of.high[number];
}

std::pair<SplitBox, SplitBox> divided(const SplitBox& box, const Division& division) {
  std::pair<SplitBox, SplitBox> parts{box, box};
  const auto number = static_cast<size_t>(division.number);
  divided_ranges(parts.first, division.of).high[number] = division.last;
  divided_ranges(parts.second, division.of).low[number] = division.last + 1;
  return parts;
}

}  // namespace penstock
