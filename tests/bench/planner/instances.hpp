// Small random instances for the objectives of other planners. Each follows from its seed.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "planner/model/dag.hpp"

namespace penstock::test {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  /// least .. most
  int number(int least, int most) {
    return least + static_cast<int>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  bool percent(int chance) { return number(0, 99) < chance; }

 private:
  std::mt19937_64 random_;
};

/// Edges lead to larger numbers.
Dag random_dag(Dice& dice, int nodes, int edge_percent);

/// Calls `visit` with every list of `length` numbers of 0 .. values - 1.
void for_all(int length, int values, const std::function<void(const std::vector<int>&)>& visit);

/// Calls `visit` with every way to number stages 0 .. s - 1, none empty, so that no edge leads
/// back.
void for_all_stages(const Dag& dag, const std::function<void(const std::vector<int>&, int)>& visit);

/// Sums of the same few numbers in another order: at most some hundred additions, each off by
/// 2^-53 relative.
constexpr double rounding = 1e-13;

}  // namespace penstock::test
