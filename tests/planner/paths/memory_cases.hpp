// Small tables of layers whose ranks recompute, with the best step of every split over all choices.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "planner/paths/program_paths.hpp"

namespace penstock::test {

constexpr double never_s = std::numeric_limits<double>::infinity();

/// A table of layers on two ranks of two stages each; `best_s`: of each split, over all choices
/// that fit.
struct MemoryCase {
  std::shared_ptr<const ProgramPaths> paths;
  std::map<std::vector<int>, double> best_s;
};

/// Calls it for the seeds [from, to) in which ranks may have to recompute; `rough` as random_table
/// has it.
void for_each_memory_case(uint64_t from, uint64_t to, bool rough,
                          const std::function<void(const MemoryCase&, std::mt19937_64&)>& check);

}  // namespace penstock::test
