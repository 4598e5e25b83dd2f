// Spaces that are all there, searched as if they were listed block by block.
#pragma once

#include <algorithm>
#include <vector>

#include "planner/splits/search.hpp"

namespace penstock::test {

/// In blocks of one, two, three, one, … spaces.
inline std::vector<SpaceBlock> in_blocks(const std::vector<SearchSpace>& spaces,
                                         const SplitSearch& how) {
  std::vector<SpaceBlock> blocks;
  for (size_t begin = 0; begin < spaces.size();) {
    const size_t end = std::min(spaces.size(), begin + 1 + blocks.size() % 3);
    const std::vector<SearchSpace> block(spaces.begin() + static_cast<std::ptrdiff_t>(begin),
                                         spaces.begin() + static_cast<std::ptrdiff_t>(end));
    blocks.push_back(space_block([block] { return block; }, how));
    begin = end;
  }
  return blocks;
}

inline SearchResult search_in_blocks(const std::vector<SearchSpace>& spaces,
                                     const SplitSearch& how) {
  return search_splits(in_blocks(spaces, how), how);
}

/// The spaces of blocks, in their order.
inline std::vector<SearchSpace> spaces_of(const std::vector<SpaceBlock>& blocks) {
  std::vector<SearchSpace> spaces;
  for (const SpaceBlock& block : blocks)
    std::ranges::move(block.list(), std::back_inserter(spaces));
  return spaces;
}

}  // namespace penstock::test
