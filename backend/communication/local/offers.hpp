// What two ranks of one machine share: each offers the other tensors that lie in its own memory,
// and the taker reads them there across the processes. No byte of a tensor is copied twice, and no
// thread moves it but the one that waits for it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

namespace penstock {

/// A tensor's bytes, as their owner knows them.
struct Offer {
  uint64_t address = 0;
  int64_t bytes = 0;
  int64_t tag = 0;
};

/// The offers of one rank to another, numbered from 0 in the order in which they are made. It lies
/// in memory of both, zeroed at first: one writes with `offer`, the other with `take`.
class OfferRing {
 public:
  static constexpr uint64_t capacity = 1024;

  /// Makes offer `number`; false where the one that has its place is not taken yet.
  bool offer(uint64_t number, const Offer& offer) {
    Slot& slot = slots_[number % capacity];
    const uint64_t before = number < capacity ? 0 : taken_state(number - capacity);
    if (slot.state.load() != before) return false;
    slot.offer = offer;
    slot.state.store(offered_state(number));
    return true;
  }
  /// Nothing where it has not been made, or was taken.
  std::optional<Offer> look(uint64_t number) const {
    const Slot& slot = slots_[number % capacity];
    if (slot.state.load() != offered_state(number)) return std::nullopt;
    return slot.offer;
  }
  /// Its owner may change the bytes from now on.
  void take(uint64_t number) { slots_[number % capacity].state.store(taken_state(number)); }
  bool taken(uint64_t number) const {
    return slots_[number % capacity].state.load() >= taken_state(number);
  }

 private:
  // A place goes through 0, 1, 2, 1 + 2 x capacity, 2 + 2 x capacity, …
  static constexpr uint64_t offered_state(uint64_t number) { return 2 * number + 1; }
  static constexpr uint64_t taken_state(uint64_t number) { return 2 * number + 2; }
  struct Slot {
    std::atomic<uint64_t> state;
    Offer offer;
  };
  std::array<Slot, capacity> slots_;
};

/// The memory that two ranks share; side 0 is the lower rank's.
struct SharedPage {
  std::array<OfferRing, 2> offers;                // by the side that makes them
  std::array<std::atomic<uint32_t>, 2> sleeping;  // the side sleeps until its socket has a word
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "atomics must work between processes");

}  // namespace penstock
