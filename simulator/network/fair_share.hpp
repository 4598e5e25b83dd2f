// Max-min fair rates: nobody can go faster without slowing somebody who is no faster (Bertsekas and
// Gallager, Data Networks, 1992, 6.5.2: progressive filling).
#pragma once

#include <vector>

namespace penstock {

struct FairFlow {
  double bound = 0;  // bytes per second that it can reach alone; 0: infinite
  const std::vector<int>* passes = nullptr;  // indices of capacities
};

/// The rate of each flow, in bytes per second; infinite for one without bound that passes nothing.
/// O(rounds x (flows + capacities)), at most a round for each flow.
std::vector<double> fair_rates(const std::vector<FairFlow>& flows,
                               const std::vector<double>& capacity);

}  // namespace penstock
