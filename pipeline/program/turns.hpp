// Whose turn it is in a sweep over the ranks: each turn visits ranks in ascending order, and only
// those that were asked for.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace penstock {

class Turns {
 public:
  explicit Turns(int ranks)
      : now_((static_cast<size_t>(ranks) + 63) / 64), later_(now_.size()), asked_(now_.size()) {}

  /// Visits the rank in this turn if it is above the one that was visited last, else in the next
  /// one. Asking again before that changes nothing.
  void ask(int rank) {
    if (test_and_set(asked_, rank)) return;
    test_and_set(rank > last_ ? now_ : later_, rank);
    ++count_;
  }

  /// The next rank to visit; -1 where none is asked for.
  int next() {
    if (count_ == 0) return -1;
    --count_;
    for (size_t word = static_cast<size_t>(last_ + 1) / 64; word < now_.size(); ++word) {
      if (now_[word] != 0) return take(word);
    }
    std::swap(now_, later_);
    for (size_t word = 0;; ++word) {
      if (now_[word] != 0) return take(word);
    }
  }

 private:
  using Bits = std::vector<uint64_t>;

  static bool test_and_set(Bits& bits, int rank) {
    uint64_t& word = bits[static_cast<size_t>(rank) / 64];
    const uint64_t bit = uint64_t{1} << (rank % 64);
    const bool was = (word & bit) != 0;
    word |= bit;
    return was;
  }

  int take(size_t word) {
    const int bit = std::countr_zero(now_[word]);
    now_[word] &= now_[word] - 1;
    asked_[word] &= ~(uint64_t{1} << bit);
    last_ = static_cast<int>(word) * 64 + bit;
    return last_;
  }

  Bits now_, later_, asked_;
  int last_ = -1, count_ = 0;
};

}  // namespace penstock
