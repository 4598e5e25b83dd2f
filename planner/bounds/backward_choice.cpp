#include "planner/bounds/backward_choice.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace penstock {

/// Along the chain from its end; a new stage begins where the way changes.
BackwardChoice::BackwardChoice(const ChainCosts& costs, int stages) : units_(costs.units()) {
  if (costs.whole_s.empty()) return;
  using Ways = std::array<double, 2>;  // the first stage's backwards are whole, or in two parts
  constexpr double never = std::numeric_limits<double>::infinity();
  longer_s_.assign(index(units_, stages) + 1, 0.0);
  std::vector<Ways> fewer(static_cast<size_t>(units_) + 1, Ways{never, never}), now = fewer;
  for (int left = 1; left <= stages; ++left) {
    now.back() = {0, 0};
    for (int unit = units_ - 1; unit >= 0; --unit) {
      const auto u = static_cast<size_t>(unit);
      const double alone_s = costs.backward_s[u] + costs.weight_s[u];
      now[u] = {costs.whole_s[u] - alone_s + std::min(now[u + 1][0], fewer[u + 1][1]),
                costs.parts_s[u] - alone_s + std::min(now[u + 1][1], fewer[u + 1][0])};
      longer_s_[index(unit, left)] = std::max(0.0, std::min(now[u][0], now[u][1]));
    }
    fewer = now;
  }
}

double BackwardChoice::longer_s(int begin, int left) const {
  return longer_s_.empty() ? 0.0 : longer_s_[index(begin, left)];
}

}  // namespace penstock
