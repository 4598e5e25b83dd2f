#include "bench/planner/cheapest.hpp"

#include <algorithm>
#include <tuple>

#include "bench/planner/infinite.hpp"

namespace penstock::bench {

namespace {

/// A choice for the first items.
struct Partial {
  double bytes = 0, time_s = 0;
  int before = -1, variant = -1;  // of the items but the last, in their list; of the last
};

/// The variant with the least of `what`, then of the other, then the first.
int least(const std::vector<Variant>& variants, double Variant::*what, double Variant::*then) {
  const auto found = std::ranges::min_element(variants, [&](const Variant& a, const Variant& b) {
    return std::tuple(a.*what, a.*then) < std::tuple(b.*what, b.*then);
  });
  return static_cast<int>(found - variants.begin());
}

Choice choose(const std::vector<std::vector<Variant>>& items, double Variant::*what,
              double Variant::*then, double& bytes) {
  Choice choice;
  bytes = 0;
  for (const std::vector<Variant>& variants : items) {
    choice.variants.push_back(least(variants, what, then));
    choice.time_s += variants[choice.variants.back()].time_s;
    bytes += variants[choice.variants.back()].bytes;
  }
  return choice;
}

/// All ways to go on with one more item, of which no other is both smaller and faster, and which
/// leave at least `rest_bytes` for the items behind.
std::vector<Partial> extended(const std::vector<Partial>& front,
                              const std::vector<Variant>& variants, double max_bytes) {
  std::vector<Partial> all;
  for (int before = 0; before < static_cast<int>(front.size()); ++before)
    for (int variant = 0; variant < static_cast<int>(variants.size()); ++variant) {
      const double bytes = front[before].bytes + variants[variant].bytes;
      if (bytes <= max_bytes)
        all.push_back({bytes, front[before].time_s + variants[variant].time_s, before, variant});
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

Choice cheapest(const std::vector<std::vector<Variant>>& items, double capacity_bytes) {
  double bytes = 0;
  Choice fastest = choose(items, &Variant::time_s, &Variant::bytes, bytes);
  if (bytes <= capacity_bytes) return fastest;
  choose(items, &Variant::bytes, &Variant::time_s, bytes);
  if (bytes > capacity_bytes) return {infinite, {}};

  double rest_bytes = bytes;  // the least that the items not yet chosen need
  std::vector<std::vector<Partial>> fronts = {{Partial{}}};
  for (const std::vector<Variant>& variants : items) {
    rest_bytes -= variants[least(variants, &Variant::bytes, &Variant::time_s)].bytes;
    fronts.push_back(extended(fronts.back(), variants, capacity_bytes - rest_bytes));
  }
  Choice choice{fronts.back().back().time_s, std::vector<int>(items.size())};
  const Partial* last = &fronts.back().back();
  for (size_t i = items.size(); i-- > 0;) {
    choice.variants[i] = last->variant;
    last = &fronts[i][last->before];
  }
  return choice;
}

}  // namespace penstock::bench
