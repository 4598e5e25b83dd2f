// The least of many keys, of which few are ever looked at.
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
    if (!first_.empty() && key < first_.back()) {
      first_.insert(std::ranges::upper_bound(first_, key), std::move(key));
      return;
    }
    put_back(std::move(key));
  }
  /// The first `count` in ascending order, without those that are `dead`, which they stay.
  template <typename Dead>
  const std::vector<Key>& first(size_t count, const Dead& dead) {
    std::erase_if(first_, dead);
    while (first_.size() > count) {
      put_back(std::move(first_.back()));
      first_.pop_back();
    }
    while (first_.size() < count && !rest_.empty()) {
      std::ranges::pop_heap(rest_, std::greater());
      if (!dead(rest_.back())) first_.push_back(std::move(rest_.back()));
      rest_.pop_back();
    }
    return first_;
  }
  /// Calls it with all, dead or not.
  template <typename Call>
  void each(const Call& call) const {
    std::ranges::for_each(first_, call);
    std::ranges::for_each(rest_, call);
  }

 private:
  void put_back(Key key) {
    rest_.push_back(std::move(key));
    std::ranges::push_heap(rest_, std::greater());
  }

  std::vector<Key> first_, rest_;  // a heap; none of it is less than any of `first_`
};

}  // namespace penstock
