#include "planner/splits/launch_space.hpp"

#include <algorithm>
#include <numeric>

namespace penstock {

SplitSpace::Prefix LaunchSpace::extend(const Prefix& known, int begin, int end, int left) const {
  Prefix next = devices_->extend(known, begin, end, left);
  next.issued_s = known.issued_s;
  next.issued_s.resize(static_cast<size_t>(placement_.ranks), 0.0);
  const int rank = placement_.rank_of_stage[static_cast<size_t>(stages() - left)];
  next.issued_s[static_cast<size_t>(rank)] += hosts_.issued(begin, end, 1);
  return next;
}

/// The hosts share what is left to issue.
double LaunchSpace::min_s(const Prefix& known, int begin, int left) const {
  const std::vector<double>& issued_s = known.issued_s;
  double longest = issued_s.empty() ? 0 : *std::ranges::max_element(issued_s);
  if (left > 0) {
    const double sum_s = std::accumulate(issued_s.begin(), issued_s.end(), 0.0);
    longest = std::max(longest, (sum_s + hosts_.issued(begin, units(), left)) / placement_.ranks);
  }
  return std::max(devices_->min_s(known, begin, left), longest + known.path.optimizer);
}

double LaunchSpace::split_s(const std::vector<int>& begins) const {
  Prefix known;
  for (size_t stage = 0; stage < begins.size(); ++stage) {
    const int end = stage + 1 < begins.size() ? begins[stage + 1] : units();
    known = extend(known, begins[stage], end, static_cast<int>(begins.size() - stage));
  }
  return std::max(devices_->split_s(begins), min_s(known, units(), 0));
}

}  // namespace penstock
