// The multiple choice of cheapest.hpp with a price on every byte in place of the capacity: its
// linear relaxation, which an exact search is told by what it need not look at.
#pragma once

#include <vector>

#include "bench/planner/cheapest.hpp"

namespace penstock::bench {

class Relaxed {
 public:
  /// `fastest` does not fit; the smallest variants do.
  Relaxed(const std::vector<std::vector<Variant>>& items, double capacity_bytes,
          std::vector<int> fastest);

  /// One that fits, near the best; of infinite time where rounding leaves none.
  const Choice& choice() const { return choice_; }
  /// No choice that fits is faster.
  double least_s() const;
  /// Can the best choice, or one as good, begin with these of the first `count` items?
  bool may_be_part(const Variant& sum, size_t count) const;

 private:
  /// For the items from one on, each for itself.
  struct Rest {
    double bytes = 0, priced_s = 0;  // the least that they take; time and the price of bytes
  };
  void choose(const std::vector<std::vector<Variant>>& items, std::vector<int> variants);
  void add_up(const std::vector<std::vector<Variant>>& items);
  double price_s() const { return s_per_byte_ * capacity_bytes_; }
  /// More than rounding can hide.
  double margin_s() const { return 1e-9 * (choice_.time_s + price_s()); }

  double capacity_bytes_;
  double s_per_byte_ = 0;
  Choice choice_;
  std::vector<Rest> rest_;  // one more than there are items
};

/// Item by item, front to back, as in all sums of the search.
Variant total(const std::vector<std::vector<Variant>>& items, const std::vector<int>& variants);

}  // namespace penstock::bench
