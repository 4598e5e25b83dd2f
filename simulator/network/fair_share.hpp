// Max-min fair rates: nobody can go faster without slowing somebody who is no faster (Bertsekas and
// Gallager, Data Networks, 1992, 6.5.2: progressive filling).
#pragma once

#include <vector>

namespace penstock {

struct FairFlow {
  double bound = 0;  // the rate that it can reach alone; 0: infinite
  // Indices of capacities; one that is named twice is used twice as fast as the flow goes.
  const std::vector<int>* passes = nullptr;
  double rate = 0;  // infinite for one without bound that passes nothing
};

class FairShare {
 public:
  /// The capacities outlive this.
  explicit FairShare(const std::vector<double>& capacity);

  /// Gives each of these flows its rate, as if there were no others.
  /// O(rounds x flows x what they pass), at most a round for each flow.
  void fill(const std::vector<FairFlow*>& flows);

 private:
  double share(int shared) const {
    return left_[static_cast<size_t>(shared)] / users_[static_cast<size_t>(shared)];
  }
  double limit(const FairFlow& flow) const;
  void stop(FairFlow& flow, double rate);

  const std::vector<double>& capacity_;
  std::vector<double> left_;  // by capacity: what stopped flows do not use
  std::vector<int> users_;    // by capacity: flows that still grow
  std::vector<FairFlow*> growing_;
};

}  // namespace penstock
