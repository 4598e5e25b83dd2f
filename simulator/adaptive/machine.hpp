// One rank as a machine that runs one action at a time.
#pragma once

#include <vector>

namespace penstock {

/// An action that cannot begin before its head, and that its tail follows.
struct MachineWork {
  double head_s = 0, work_s = 0, tail_s = 0;
};

/// When a machine has done all of it at the earliest, tails left out.
double done_s(std::vector<MachineWork> work);

/// When all tails have ended at the earliest, if actions may be interrupted: the machine runs what
/// could begin with the longest tail (J. R. Jackson, "Scheduling a production line to minimize
/// maximum tardiness", 1955). No order without interruptions ends earlier.
double delivered_s(std::vector<MachineWork> work);

}  // namespace penstock
