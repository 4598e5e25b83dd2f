// The machine that a bench runs on.
#pragma once

#include <string>

namespace penstock::bench {

/// Processor, cores, load and date of this run.
struct Machine {
  std::string processor, date;
  int cores = 0;
  double load = 0;  // processes that wanted to run in the last minute
};

Machine this_machine();

}  // namespace penstock::bench
