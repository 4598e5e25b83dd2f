// A queue of moments, one for each work at most, that can be moved while they wait: a heap of four
// children a node, which knows where each work's moment is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

namespace penstock {

/// When work begins or ends; of equal times the lowest number comes first. No two are equal.
struct Moment {
  double time_s = 0;
  int64_t number = 0;
  int32_t work = 0;  // >= 0
  bool operator>(const Moment& other) const {
    return std::tie(time_s, number) > std::tie(other.time_s, other.number);
  }
};

class Moments {
 public:
  bool empty() const { return heap_.empty(); }
  const Moment& top() const { return heap_.front(); }

  /// Adds the work's moment, or moves it; O(log n).
  void put(const Moment& moment) {
    const auto work = static_cast<size_t>(moment.work);
    if (work >= place_.size()) place_.resize(work + 1, nowhere);
    if (place_[work] == nowhere) {
      heap_.push_back(moment);
      return rise(heap_.size() - 1, moment);
    }
    const size_t at = place_[work];
    heap_[at] > moment ? rise(at, moment) : sink(at, moment);
  }

  void pop() {
    place_[static_cast<size_t>(top().work)] = nowhere;
    const Moment last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(0, last);
  }

 private:
  static constexpr size_t children = 4, nowhere = SIZE_MAX;

  void set(size_t at, const Moment& moment) {
    heap_[at] = moment;
    place_[static_cast<size_t>(moment.work)] = at;
  }

  void rise(size_t at, const Moment& moment) {
    for (; at > 0 && heap_[(at - 1) / children] > moment; at = (at - 1) / children)
      set(at, heap_[(at - 1) / children]);
    set(at, moment);
  }

  void sink(size_t at, const Moment& moment) {
    while (children * at + 1 < heap_.size()) {
      size_t first = children * at + 1;
      const size_t end = std::min(first + children, heap_.size());
      for (size_t child = first + 1; child < end; ++child)
        if (heap_[first] > heap_[child]) first = child;
      if (!(moment > heap_[first])) break;
      set(at, heap_[first]);
      at = first;
    }
    set(at, moment);
  }

  std::vector<Moment> heap_;
  std::vector<size_t> place_;  // by work, in the heap
};

}  // namespace penstock
