// Splits whose stages lie on ranks in any way, with backwards whole or in two parts: bounds (1) and
// (2) of measuring a pipeline's ideal, valid for every order of actions.
//
//   rank r  |-- head --| its F and I .......................... |-- tail --|
//           |-- head --| its F, I and W ................................|
//
// *head*: what one microbatch passes before the first stage of the rank can begin. *tail*: what the
// last F or I of the rank, which is the I of that same stage, still passes back to stage 0, W and
// the sum over replicas of stage 0 included. Whole backwards count as I without W. Later stages of
// a rank have longer heads and tails: its F are done no earlier than if those of each stage came
// after its head, all of its I come later, and those of each stage before its tail.
//
// Where only the first stages are known, the ranks that have stages to come share the units that
// are left: their largest load is at least the mean, and where units are of about equal size one
// rank has one more than others (whole_units.hpp). With one stage per rank heads and tails grow
// along the chain, and the least longest rank follows from a dynamic programme that is exact for
// (1) without transfers: the later a rank begins, the less is left (each unit counts m >= 1 times
// in a load and once in a head).
#pragma once

#include <memory>
#include <optional>

#include "planner/bounds/backward_choice.hpp"
#include "planner/bounds/chain_memory.hpp"
#include "planner/bounds/placement.hpp"
#include "planner/bounds/recompute_bound.hpp"
#include "planner/bounds/work_sums.hpp"
#include "planner/model/rank_speeds.hpp"
#include "planner/splits/split_space.hpp"

namespace penstock {

class PlacedSpace : public SplitSpace {
 public:
  /// Ranks that hold more than the limit recompute; any may.
  struct Recompute {
    int64_t limit_bytes;  // of the ranks that may hold most
    RecomputeBound least;
  };
  /// Backwards in two parts where `costs.weight_s` is not empty. Without `recompute` no rank does.
  /// `costs` are for the fastest rank; `less`: how much less each rank may hold than those that may
  /// hold most (MemoryLimit), empty: all the same. No split takes less than `least`.
  PlacedSpace(ChainCosts costs, std::shared_ptr<const StageTable> bytes, Placement placement,
              RankSpeeds speeds, std::vector<int64_t> less = {},
              std::optional<Recompute> recompute = std::nullopt, SplitNeeds least = {});

  int units() const override { return units_; }
  int stages() const override { return static_cast<int>(placement_.rank_of_stage.size()); }
  Prefix extend(const Prefix& known, int begin, int end, int left) const override;
  double min_s(const Prefix& known, int begin, int left) const override;
  int64_t min_bytes(const Prefix& known, int begin, int left) const override;
  double split_s(const std::vector<int>& begins) const override;
  using SplitSpace::min_bytes;
  using SplitSpace::min_s;

 private:
  double inputs(int begin, int end, int stage) const;  // F and I of the stage, all microbatches
  void hold(int begin, int end, int stage, RankLoad& rank) const;
  double recompute_s(int64_t kept_bytes, int held) const;
  double tail_of_first(int end) const;
  double cross(int stage, int cut, bool back) const;
  double speed(int rank) const { return speeds_.relative()[static_cast<size_t>(rank)]; }
  double speed_of_stage(int stage) const {
    return speed(placement_.rank_of_stage[static_cast<size_t>(stage)]);
  }
  int64_t less(int stage) const {
    return less_.empty()
               ? 0
               : less_[static_cast<size_t>(placement_.rank_of_stage[static_cast<size_t>(stage)])];
  }
  double mean(const Prefix& known, int begin, int left) const;
  double shared(const Prefix& known, int begin, int left) const;
  void count_equal_units();
  double fill(int begin, int count) const;
  double through(const Prefix& known, int begin) const;
  void tabulate();
  double longest(int begin, int end, int stage) const;
  double head_before(int begin) const;
  double base_before(int begin) const;
  bool linked(int cut) const {
    return costs_.linked.empty() || costs_.linked[static_cast<size_t>(cut) - 1] != 0;
  }
  size_t index(int begin, int left) const {
    return static_cast<size_t>(left) * static_cast<size_t>(units_ + 1) + static_cast<size_t>(begin);
  }

  ChainCosts costs_;
  std::shared_ptr<const StageTable> bytes_;
  Placement placement_;
  RankSpeeds speeds_;
  std::vector<int64_t> less_;
  std::optional<Recompute> recompute_;
  const SplitNeeds least_;
  int units_;
  bool whole_ = true;  // every cut is linked
  bool heads_;  // a rank begins with its first stage, and what one microbatch passes before counts
  WorkSums sums_;
  BackwardChoice choice_;
  double equal_s_ = 0;           // of equal units, in all of a step
  std::vector<int> equal_from_;  // how many there are from unit i on
  std::vector<double> suffix_;  // one stage per rank: the least longest rank, by index(begin, left)
};

}  // namespace penstock
