// Peak memory of the stages of a chain in closed form, for schedules that keep k microbatches in
// flight on a rank (chain_bound.hpp): what is always there + k x what a microbatch holds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace penstock {

/// Bytes of one stage. Never above what the simulator says of it.
struct StageBytes {
  int64_t always = 0;          // parameters, their gradients and states, buffers
  int64_t per_microbatch = 0;  // between F and B
  int64_t given = 0;           // part of it: what a stage keeps that is recomputed at once
  int64_t apart = 0;           // the least where its units recompute one by one
  // Parts that may be another stage's as well, where a rank has several:
  int64_t common = 0;    // of `always`: tensors that units outside use
  int64_t received = 0;  // of `per_microbatch` and `given`: from other stages
  /// At the start of a backward in one part, beyond what is kept then; and where the last unit
  /// recomputes, what it has made again.
  int64_t turn = 0, again = 0;

  /// With so many microbatches in flight, between two actions.
  int64_t kept(int64_t held) const { return always + held * per_microbatch; }
  /// The least of a microbatch, whatever recomputes.
  int64_t least() const { return std::min(given, apart); }
  /// Bytes as a backward begins, whatever it recomputes: at once it makes again all that it keeps
  /// of that microbatch.
  int64_t recomputed(int64_t held) const {
    return always + std::min(held * apart + again, at_once(held));
  }
  /// So many microbatches where the stage is recomputed at once, as a backward begins.
  int64_t at_once(int64_t held) const { return (held - 1) * given + per_microbatch; }
};

/// Bytes of every stage that a chain of units can have, or of those that begin with one of the
/// first `begins` units.
class StageTable {
 public:
  explicit StageTable(int units) : StageTable(units, units) {}
  StageTable(int units, int begins)
      : units_(units),
        begins_(begins),
        stages_(static_cast<size_t>(begins) * (static_cast<size_t>(units) + 1)) {}
  int units() const { return units_; }
  int begins() const { return begins_; }
  /// Units [begin, end).
  StageBytes& at(int begin, int end) { return stages_[index(begin, end)]; }
  const StageBytes& at(int begin, int end) const { return stages_[index(begin, end)]; }

 private:
  size_t index(int begin, int end) const {
    return static_cast<size_t>(begin) * (static_cast<size_t>(units_) + 1) +
           static_cast<size_t>(end);
  }
  int units_, begins_;
  std::vector<StageBytes> stages_;
};

class ChainMemory {
 public:
  /// `in_flight` empty: at least one microbatch is held. `recompute`: a stage may recompute, where
  /// it then holds less.
  ChainMemory(std::shared_ptr<const StageTable> table, int ranks, std::vector<int> in_flight,
              bool recompute = false);

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

  std::shared_ptr<const StageTable> table_;
  bool recompute_;
  int units_, ranks_;
  std::vector<int> in_flight_;
  std::vector<int64_t> suffix_;  // by left * (units + 1) + begin
};

}  // namespace penstock
