// Rows as a table for people, or as one JSON object per line.
#pragma once

#include <string>

#include "bench/measure.hpp"

namespace penstock::bench {

/// Processor, cores, load and date of this run.
struct Machine {
  std::string processor, date;
  int cores = 0;
  double load = 0;  // processes that wanted to run in the last minute
};

Machine this_machine();

std::string table_heading(const Machine& machine);
std::string table_line(const Row& row);
std::string json_heading(const Machine& machine);
std::string json_line(const Row& row);

}  // namespace penstock::bench
