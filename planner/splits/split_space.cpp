#include "planner/splits/split_space.hpp"

#include <algorithm>
#include <numeric>

namespace penstock {

std::vector<int> SplitSpace::ends(int begin, int left) const {
  const int first = left == 1 ? units() : begin + 1, last = units() - left + 1;
  std::vector<int> result(static_cast<size_t>(std::max(0, last - first + 1)));
  std::iota(result.begin(), result.end(), first);
  return result;
}

int64_t SplitSpace::splits() const {
  const int cuts = units() - 1;
  if (stages() > units()) return 0;
  const int chosen = std::min(stages() - 1, units() - stages());  // or left out: as many ways
  // C(n, k) as a product that stays whole: C(n, i) = C(n, i - 1) (n - i + 1) / i.
  __extension__ using Wide = unsigned __int128;
  Wide count = 1;
  for (int i = 1; i <= chosen; ++i) {
    count = count * static_cast<unsigned>(cuts - i + 1) / static_cast<unsigned>(i);
    if (count > static_cast<Wide>(INT64_MAX)) return INT64_MAX;
  }
  return static_cast<int64_t>(count);
}

}  // namespace penstock
