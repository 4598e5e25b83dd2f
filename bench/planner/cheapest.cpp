#include "bench/planner/cheapest.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "bench/planner/infinite.hpp"
#include "bench/planner/relaxed.hpp"

namespace penstock::bench {

namespace {

/// A choice for the first items.
struct Partial {
  double bytes = 0, time_s = 0;
  int before = -1, variant = -1;  // of the items but the last, in their list; of the last
};

/// Each item's variant with the least of `what`, then of the other, then the first.
std::vector<int> least(const std::vector<std::vector<Variant>>& items, double Variant::*what,
                       double Variant::*then) {
  std::vector<int> choice;
  for (const std::vector<Variant>& variants : items) {
    const auto found = std::ranges::min_element(variants, [&](const Variant& a, const Variant& b) {
      return std::tuple(a.*what, a.*then) < std::tuple(b.*what, b.*then);
    });
    choice.push_back(static_cast<int>(found - variants.begin()));
  }
  return choice;
}

/// Where there is nothing to choose: the fastest variants fit, or not even the smallest do.
std::optional<Choice> obvious(const std::vector<std::vector<Variant>>& items,
                              const std::vector<int>& fastest, double capacity_bytes) {
  const Variant fast = total(items, fastest);
  if (fast.bytes <= capacity_bytes) return Choice{fast.time_s, fastest};
  const Variant small = total(items, least(items, &Variant::bytes, &Variant::time_s));
  if (small.bytes > capacity_bytes) return Choice{infinite, {}};
  return std::nullopt;
}

/// All ways to go on with one more item, without those that cannot be part of the best and those
/// to which another is both smaller and faster.
std::vector<Partial> extended(const std::vector<Partial>& front,
                              const std::vector<Variant>& variants, const Relaxed& relaxed,
                              size_t items) {
  std::vector<Partial> all;
  for (int before = 0; before < static_cast<int>(front.size()); ++before)
    for (int variant = 0; variant < static_cast<int>(variants.size()); ++variant) {
      const Partial part{front[before].bytes + variants[variant].bytes,
                         front[before].time_s + variants[variant].time_s, before, variant};
      if (relaxed.may_be_part({part.time_s, part.bytes}, items)) all.push_back(part);
    }
  std::ranges::sort(all, [](const Partial& a, const Partial& b) {
    return std::tie(a.bytes, a.time_s, a.before, a.variant) <
           std::tie(b.bytes, b.time_s, b.before, b.variant);
  });
  std::vector<Partial> kept;
  for (const Partial& one : all)
    if (kept.empty() || one.time_s < kept.back().time_s) kept.push_back(one);
  return kept;
}

}  // namespace

TimeRange time_range(const std::vector<std::vector<Variant>>& items, double capacity_bytes) {
  const std::vector<int> fastest = least(items, &Variant::time_s, &Variant::bytes);
  if (const auto choice = obvious(items, fastest, capacity_bytes))
    return {choice->time_s, choice->time_s};
  const Relaxed relaxed(items, capacity_bytes, fastest);
  return {relaxed.least_s(), relaxed.choice().time_s};
}

Choice cheapest(const std::vector<std::vector<Variant>>& items, double capacity_bytes) {
  const std::vector<int> fastest = least(items, &Variant::time_s, &Variant::bytes);
  if (auto choice = obvious(items, fastest, capacity_bytes)) return *std::move(choice);
  const Relaxed relaxed(items, capacity_bytes, fastest);
  std::vector<std::vector<Partial>> fronts = {{Partial{}}};
  for (size_t i = 0; i < items.size(); ++i)
    fronts.push_back(extended(fronts.back(), items[i], relaxed, i + 1));
  Choice choice{fronts.back().back().time_s, std::vector<int>(items.size())};
  const Partial* last = &fronts.back().back();
  for (size_t i = items.size(); i-- > 0;) {
    choice.variants[i] = last->variant;
    last = &fronts[i][last->before];
  }
  return choice;
}

}  // namespace penstock::bench
