// Units are whole: where k ranks share more than n k units of at least c each, one of them has
// n + 1 and works for (n + 1) c, however much less the mean is.
#pragma once

#include <vector>

namespace penstock {

/// Units by what they take of a rank, in seconds.
class WholeUnits {
 public:
  explicit WholeUnits(std::vector<double> unit_s);

  /// One of so many ranks has at least this to do, whichever unit is on which: of the n k + 1
  /// largest units it has n + 1.
  double largest_load_s(int ranks) const;

  /// The size for which it matters most that equal units are whole: of all c, that with the largest
  /// c times the number of units of c or more that one of the ranks must have.
  double equal_size_s(int ranks) const;

 private:
  std::vector<double> sorted_s_;  // largest first
};

/// No sooner is the last of some ranks done that are busy until `busy_s` and share so many units
/// that take rank r `each_s[r]` or more. 0 without units.
double last_done_s(const std::vector<double>& busy_s, const std::vector<double>& each_s, int count);

}  // namespace penstock
