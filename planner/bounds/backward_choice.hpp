// Backwards where a stage runs them whole (B) or in two parts (I and W), whichever is faster: all
// of its units alike, so stages take longer than if each unit had its own way.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/bounds/bounds.hpp"

namespace penstock {

class BackwardChoice {
 public:
  /// For splits into so many stages. Nothing is chosen where `costs.whole_s` is empty.
  BackwardChoice(const ChainCosts& costs, int stages);

  /// The seconds by which backwards of one microbatch of the units from `begin` on take at least
  /// longer, in `left` stages.
  double longer_s(int begin, int left) const;

 private:
  size_t index(int begin, int left) const {
    return static_cast<size_t>(left) * static_cast<size_t>(units_ + 1) + static_cast<size_t>(begin);
  }

  int units_;
  std::vector<double> longer_s_;  // by index; or empty
};

}  // namespace penstock
