// Rows as a table for people, or as one JSON object per line.
#pragma once

#include <string>

#include "bench/machine.hpp"
#include "bench/measure.hpp"

namespace penstock::bench {

std::string table_heading(const Machine& machine);
std::string table_line(const Row& row);
std::string json_heading(const Machine& machine);
std::string json_line(const Row& row);

}  // namespace penstock::bench
