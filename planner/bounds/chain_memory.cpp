#include "planner/bounds/chain_memory.hpp"

#include <algorithm>
#include <limits>

namespace penstock {

ChainMemory::ChainMemory(std::shared_ptr<const StageTable> table, int ranks,
                         std::vector<int> in_flight, bool recompute)
    : table_(std::move(table)),
      recompute_(recompute),
      units_(table_->units()),
      ranks_(ranks),
      in_flight_(std::move(in_flight)) {
  const size_t size = static_cast<size_t>(ranks_ + 1) * static_cast<size_t>(units_ + 1);
  suffix_.assign(size, std::numeric_limits<int64_t>::max());
  suffix_[index(units_, 0)] = 0;  // nothing left
  for (int left = 1; left <= ranks_; ++left) {
    for (int begin = ranks_ - left; begin + left <= units_; ++begin) {
      suffix_[index(begin, left)] = least(begin, left);
    }
  }
}

int64_t ChainMemory::stage(int begin, int end, int left) const {
  const StageBytes& bytes = table_->at(begin, end);
  const int64_t held = in_flight_.empty() ? 1 : in_flight_[static_cast<size_t>(ranks_ - left)];
  const int64_t kept =
      recompute_ ? std::min(bytes.kept(held), bytes.recomputed(held)) : bytes.kept(held);
  return kept + bytes.turn;
}

int64_t ChainMemory::suffix(int begin, int left) const { return suffix_[index(begin, left)]; }

int64_t ChainMemory::least(int begin, int left) const {
  if (left == 1) return stage(begin, units_, 1);
  int64_t bytes = std::numeric_limits<int64_t>::max();
  for (int end = begin + 1; end + left - 1 <= units_; ++end) {
    bytes = std::min(bytes, std::max(stage(begin, end, left), suffix(end, left - 1)));
  }
  return bytes;
}

}  // namespace penstock
