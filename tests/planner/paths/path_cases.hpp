// Random chains with the paths of their programs, for every shape that a schedule runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "planner/paths/program_paths.hpp"
#include "tests/planner/chains.hpp"

namespace penstock::test {

struct PathCase {
  Chain chain;
  Shape shape;
  Program compute;
  std::shared_ptr<const ProgramPaths> paths;

  std::vector<std::vector<int>> splits() const {
    return all_splits(chain.costs.units(), paths->times().stages());
  }
  double simulated_s(const std::vector<int>& begins) const {
    return simulate_program(chain, begins, compute, shape.speeds).makespan_s;
  }
};

/// Every shape that its schedule runs, of chains for those seeds. Speeds differ with odd seeds.
void for_each_path_case(uint64_t from, uint64_t to, const std::function<Chain(uint64_t)>& make,
                        const std::function<void(const PathCase&, std::mt19937_64&)>& check);

/// Every other link waits for receivers.
Chain linked_chain(uint64_t seed);
/// Nothing but F and B costs.
Chain bare_chain(uint64_t seed);

}  // namespace penstock::test
