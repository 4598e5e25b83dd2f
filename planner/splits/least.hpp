// The least of millions of keys, of which few are ever looked at.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace penstock {

/// The least of many keys, as many as are asked for.
template <typename Key>
class Least {
 public:
  void add(Key key) {
    rest_.push_back(std::move(key));
    std::ranges::push_heap(rest_, std::greater());
  }
  /// The first `count` in ascending order, without those that are `dead`, which they stay.
  template <typename Dead>
  const std::vector<Key>& first(size_t count, const Dead& dead) {
    std::erase_if(first_, dead);
    while (first_.size() < count && !rest_.empty()) {
      std::ranges::pop_heap(rest_, std::greater());
      if (!dead(rest_.back())) first_.push_back(std::move(rest_.back()));
      rest_.pop_back();
    }
    return first_;
  }
  /// Does it hold for all, dead or not?
  template <typename Predicate>
  bool all_of(const Predicate& holds) const {
    return std::ranges::all_of(first_, holds) && std::ranges::all_of(rest_, holds);
  }

 private:
  std::vector<Key> first_, rest_;  // a heap; none of it is less than any of `first_`
};

}  // namespace penstock
