#include "planner/bounds/whole_units.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace penstock {

WholeUnits::WholeUnits(std::vector<double> unit_s) : sorted_s_(std::move(unit_s)) {
  std::ranges::sort(sorted_s_, std::greater());
}

double WholeUnits::largest_load_s(int ranks) const {
  double largest_s = 0;
  for (size_t each = 0; each * static_cast<size_t>(ranks) < sorted_s_.size(); ++each) {
    const auto last = sorted_s_.begin() + static_cast<std::ptrdiff_t>(each) * ranks;
    largest_s = std::max(largest_s,
                         std::accumulate(last - static_cast<std::ptrdiff_t>(each), last + 1, 0.0));
  }
  return largest_s;
}

double WholeUnits::equal_size_s(int ranks) const {
  double load_s = 0, size_s = 0;
  for (size_t each = 0; each * static_cast<size_t>(ranks) < sorted_s_.size(); ++each) {
    const double unit_s = sorted_s_[each * static_cast<size_t>(ranks)];
    if (static_cast<double>(each + 1) * unit_s <= load_s) continue;
    load_s = static_cast<double>(each + 1) * unit_s;
    size_s = unit_s;
  }
  return size_s;
}

double last_done_s(const std::vector<double>& busy_s, const std::vector<double>& each_s,
                   int count) {
  using Next = std::pair<double, size_t>;  // when a rank would be done with one more
  std::vector<Next> next;
  next.reserve(busy_s.size());
  for (size_t rank = 0; rank < busy_s.size(); ++rank)
    next.emplace_back(busy_s[rank] + each_s[rank], rank);
  std::priority_queue<Next, std::vector<Next>, std::greater<>> soonest({}, std::move(next));
  double done_s = 0;
  for (int unit = 0; unit < count; ++unit) {
    const auto [at_s, rank] = soonest.top();
    soonest.pop();
    done_s = at_s;
    soonest.emplace(at_s + each_s[rank], rank);
  }
  return done_s;
}

}  // namespace penstock
