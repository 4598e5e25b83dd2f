// Peak memory of the stages of a chain in closed form, for schedules that keep k microbatches in
// flight on a rank (chain_bound.hpp): what is always there + k x what a microbatch holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock {

/// Of one stage. Never above what the simulator says of it.
struct StageBytes {
  int64_t always = 0;  // parameters, their gradients and states, buffers, the largest transient
  int64_t per_microbatch = 0;  // from the start of F to the end of B
};

/// Of every stage that a chain of units can have.
class StageTable {
 public:
  explicit StageTable(int units)
      : units_(units), stages_(static_cast<size_t>(units + 1) * (static_cast<size_t>(units) + 1)) {}
  int units() const { return units_; }
  /// Units [begin, end).
  StageBytes& at(int begin, int end) { return stages_[index(begin, end)]; }
  const StageBytes& at(int begin, int end) const { return stages_[index(begin, end)]; }

 private:
  size_t index(int begin, int end) const {
    return static_cast<size_t>(begin) * (static_cast<size_t>(units_) + 1) +
           static_cast<size_t>(end);
  }
  int units_;
  std::vector<StageBytes> stages_;
};

class ChainMemory {
 public:
  /// `in_flight` empty: at least one microbatch is held.
  ChainMemory(StageTable table, int ranks, std::vector<int> in_flight);

  /// Peak of stage [begin, end) with `left` ranks from it on.
  int64_t stage(int begin, int end, int left) const;
  /// The least over all splits of units [begin, ...) into `left` stages of the largest peak in
  /// them; the largest int64_t where there are too few units.
  int64_t suffix(int begin, int left) const;
  /// Over all splits.
  int64_t chain() const { return suffix(0, ranks_); }

 private:
  int64_t least(int begin, int left) const;
  size_t index(int begin, int left) const {
    return static_cast<size_t>(left) * (static_cast<size_t>(units_) + 1) +
           static_cast<size_t>(begin);
  }

  StageTable table_;
  int units_, ranks_;
  std::vector<int> in_flight_;
  std::vector<int64_t> suffix_;  // by left * (units + 1) + begin
};

}  // namespace penstock
