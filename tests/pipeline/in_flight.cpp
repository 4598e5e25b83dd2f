#include "tests/pipeline/in_flight.hpp"

#include <algorithm>

namespace penstock {

namespace {

/// F(0..k-1), then B(0) F(k) B(1) …, then the remaining B.
bool keeps_in_flight(const std::vector<Action>& actions, int rank, int k, int microbatches) {
  if (actions.size() != 2 * static_cast<size_t>(microbatches)) return false;
  int forwards = 0, backwards = 0;
  for (const Action& action : actions) {
    const bool forward = forwards < microbatches && forwards - backwards < k;
    const Action expected{rank, forward ? Kind::forward : Kind::backward,
                          forward ? forwards++ : backwards++};
    if (!(action == expected)) return false;
  }
  return true;
}

}  // namespace

std::vector<int> in_flight(const Program& compute) {
  std::vector<int> result;
  for (int rank = 0; rank < compute.rank_count(); ++rank) {
    const auto& actions = compute.ranks[rank];
    const auto first_backward = std::find_if(
        actions.begin(), actions.end(), [](const Action& a) { return a.kind != Kind::forward; });
    const int k = static_cast<int>(first_backward - actions.begin());
    if (k < 1 || !keeps_in_flight(actions, rank, k, compute.microbatches)) return {};
    if (rank > 0 && k > result.back()) return {};
    result.push_back(k);
  }
  return result;
}

}  // namespace penstock
