// Trying every split, and the key that decides between them.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "planner/layouts/layout_search.hpp"

namespace penstock::test {

/// The least wins: nanoseconds, bytes on the fullest rank, space, begins.
using Key = std::tuple<int64_t, int64_t, size_t, std::vector<int>>;
Key key(size_t space, const std::vector<int>& begins, const SplitOutcome& outcome);
Key key(const FoundSplit& found);

/// All splits of a space, along its chain or its branches.
std::vector<std::vector<int>> all_begins(const SplitSpace& space);

/// The best of all splits of all layouts that fit. Expects that no bound of any that fits is above
/// its simulation.
std::optional<Key> try_all(const LayoutSearch& search);

}  // namespace penstock::test
