// One machine against all subsets of its work.
#include "simulator/adaptive/machine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace penstock {
namespace {

/// The largest least head, work and least tail of any subset: as long as work that may be
/// interrupted takes (J. Carlier, "The one-machine sequencing problem", 1982).
double longest_subset_s(const std::vector<MachineWork>& work) {
  double longest_s = 0;
  for (size_t subset = 1; subset < size_t{1} << work.size(); ++subset) {
    double head_s = std::numeric_limits<double>::infinity(), tail_s = head_s, sum_s = 0;
    for (size_t i = 0; i < work.size(); ++i) {
      if ((subset >> i & 1) == 0) continue;
      head_s = std::min(head_s, work[i].head_s);
      tail_s = std::min(tail_s, work[i].tail_s);
      sum_s += work[i].work_s;
    }
    longest_s = std::max(longest_s, head_s + sum_s + tail_s);
  }
  return longest_s;
}

TEST(Machine, DeliversAsLateAsItsSlowestSubset) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> seconds(0, 4);
  for (int i = 0; i < 300; ++i) {
    std::vector<MachineWork> work, without_tails;
    for (size_t count = 1 + random() % 7; count > 0; --count) {
      work.push_back({seconds(random) * static_cast<double>(random() % 3), seconds(random),
                      seconds(random) * static_cast<double>(random() % 3)});
      without_tails.push_back({work.back().head_s, work.back().work_s, 0});
    }
    EXPECT_NEAR(delivered_s(work), longest_subset_s(work), 1e-9) << "problem " << i;
    EXPECT_NEAR(done_s(without_tails), longest_subset_s(without_tails), 1e-9) << "problem " << i;
  }
}

}  // namespace
}  // namespace penstock
