// Max-min fair rates: nobody can go faster without slowing somebody who is no faster (Bertsekas and
// Gallager, Data Networks, 1992, 6.5.2: progressive filling).
#pragma once

#include <vector>

namespace penstock {

struct FairFlow {
  double bound = 0;  // the rate that it can reach alone; 0: infinite
  // Indices of capacities; one that is named twice is used twice as fast as the flow goes.
  const std::vector<int>* passes = nullptr;
};

/// The rate of each flow; infinite for one without bound that passes nothing.
/// O(rounds x (flows + capacities)), at most a round for each flow.
std::vector<double> fair_rates(const std::vector<FairFlow>& flows,
                               const std::vector<double>& capacity);

}  // namespace penstock
