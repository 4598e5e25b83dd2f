#include "bench/planner/relaxed.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include "bench/planner/infinite.hpp"

namespace penstock::bench {

namespace {

/// A smaller and slower variant of an item in place of another.
struct Step {
  double s_per_byte = infinite;
  int item = 0, from = 0, to = -1;
};

Step cheapest_step(const std::vector<Variant>& variants, int item, int from) {
  Step best{.item = item, .from = from};
  for (int to = 0; to < static_cast<int>(variants.size()); ++to) {
    const double bytes = variants[from].bytes - variants[to].bytes;
    if (bytes <= 0) continue;
    const double s_per_byte = (variants[to].time_s - variants[from].time_s) / bytes;
    if (best.to >= 0 && s_per_byte >= best.s_per_byte) continue;
    best.s_per_byte = s_per_byte;
    best.to = to;
  }
  return best;
}

/// From the fastest variant of each item to its smallest, the cheapest bytes first.
std::vector<Step> steps(const std::vector<std::vector<Variant>>& items,
                        const std::vector<int>& fastest) {
  std::vector<Step> all;
  for (int item = 0; item < static_cast<int>(items.size()); ++item) {
    double before = 0;
    for (Step step = cheapest_step(items[item], item, fastest[item]); step.to >= 0;
         step = cheapest_step(items[item], item, step.to)) {
      before = step.s_per_byte = std::max(before, step.s_per_byte);  // whatever is rounded
      all.push_back(step);
    }
  }
  std::ranges::stable_sort(all, {}, &Step::s_per_byte);
  return all;
}

}  // namespace

Relaxed::Relaxed(const std::vector<std::vector<Variant>>& items, double capacity_bytes,
                 std::vector<int> fastest)
    : capacity_bytes_(capacity_bytes), rest_(items.size() + 1) {
  choose(items, std::move(fastest));
  add_up(items);
}

void Relaxed::choose(const std::vector<std::vector<Variant>>& items, std::vector<int> variants) {
  const auto saved_bytes = [&](const Step& step) {
    return items[step.item][step.from].bytes - items[step.item][step.to].bytes;
  };
  std::vector<Step> taken;
  double bytes = total(items, variants).bytes;
  for (const Step& step : steps(items, variants)) {
    if (bytes <= capacity_bytes_) break;
    taken.push_back(step);
    variants[step.item] = step.to;
    bytes -= saved_bytes(step);
    s_per_byte_ = step.s_per_byte;
  }
  for (const Step& step : std::views::reverse(taken)) {  // those that the last one made needless
    if (variants[step.item] != step.to || bytes + saved_bytes(step) > capacity_bytes_) continue;
    variants[step.item] = step.from;
    bytes += saved_bytes(step);
  }
  const Variant sum = total(items, variants);
  choice_ = {sum.bytes <= capacity_bytes_ ? sum.time_s : infinite, std::move(variants)};
}

void Relaxed::add_up(const std::vector<std::vector<Variant>>& items) {
  for (size_t i = items.size(); i-- > 0;) {
    double bytes = infinite, priced_s = infinite;
    for (const Variant& variant : items[i]) {
      bytes = std::min(bytes, variant.bytes);
      priced_s = std::min(priced_s, variant.time_s + s_per_byte_ * variant.bytes);
    }
    rest_[i] = {rest_[i + 1].bytes + bytes, rest_[i + 1].priced_s + priced_s};
  }
}

double Relaxed::least_s() const {
  const double least_s = rest_.front().priced_s - price_s() - margin_s();
  return least_s > 0 ? least_s : 0;  // also where the price is infinite
}

bool Relaxed::may_be_part(const Variant& sum, size_t count) const {
  const Rest& rest = rest_[count];
  const double priced_s = sum.time_s + s_per_byte_ * sum.bytes + rest.priced_s;
  return sum.bytes + (1 - 1e-9) * rest.bytes <= capacity_bytes_ &&
         !(priced_s > choice_.time_s + price_s() + margin_s());
}

Variant total(const std::vector<std::vector<Variant>>& items, const std::vector<int>& variants) {
  Variant sum;
  for (size_t i = 0; i < items.size(); ++i) {
    sum.time_s += items[i][variants[i]].time_s;
    sum.bytes += items[i][variants[i]].bytes;
  }
  return sum;
}

}  // namespace penstock::bench
