#include "planner/model/downsets.hpp"

#include <algorithm>
#include <boost/functional/hash.hpp>
#include <unordered_set>

namespace penstock {

Downsets::Downsets(const Dag& dag, size_t limit)
    : nodes_(dag.nodes), words_(std::max<size_t>(1, (static_cast<size_t>(dag.nodes) + 63) / 64)) {
  complete_ = enumerate(dag, limit);
  if (!complete_) follow(topological_order(dag));
}

std::vector<int> Downsets::nodes(int downset) const {
  std::vector<int> result;
  for (int node = 0; node < nodes_; ++node)
    if (contains(downset, node)) result.push_back(node);
  return result;
}

/// Breadth first, so that downsets come by size. The set holds numbers and compares what they stand
/// for; a candidate is written behind the last downset to be looked up.
bool Downsets::enumerate(const Dag& dag, size_t limit) {
  const auto predecessors = dag.predecessors();
  const auto hash = [this](int set) { return boost::hash_range(words(set), words(set) + words_); };
  const auto equal = [this](int a, int b) {
    return std::equal(words(a), words(a) + words_, words(b));
  };
  std::unordered_set<int, decltype(hash), decltype(equal)> known(64, hash, equal);
  bits_.assign(words_, 0);
  known.insert(0);
  above_.resize(1);
  for (int set = 0; set < count(); ++set) {
    for (int node = 0; node < nodes_; ++node) {
      const bool next = !contains(set, node) && std::ranges::all_of(predecessors[node], [&](int p) {
        return contains(set, p);
      });
      if (!next) continue;
      bits_.resize((above_.size() + 1) * words_);
      std::copy_n(words(set), words_, bits_.end() - static_cast<ptrdiff_t>(words_));
      bits_[above_.size() * words_ + static_cast<size_t>(node) / 64] |= uint64_t{1} << (node % 64);
      const auto [found, is_new] = known.insert(count());
      if (is_new && above_.size() >= limit) return false;
      above_[set].push_back({node, *found});
      if (is_new) above_.emplace_back();
    }
  }
  bits_.resize(above_.size() * words_);
  return true;
}

void Downsets::follow(const std::vector<int>& order) {
  bits_.assign((order.size() + 1) * words_, 0);
  above_.assign(order.size() + 1, {});
  for (size_t i = 0; i < order.size(); ++i) {
    std::copy_n(words(i), words_, bits_.begin() + static_cast<ptrdiff_t>((i + 1) * words_));
    bits_[(i + 1) * words_ + static_cast<size_t>(order[i]) / 64] |= uint64_t{1} << (order[i] % 64);
    above_[i].push_back({order[i], static_cast<int>(i) + 1});
  }
}

}  // namespace penstock
