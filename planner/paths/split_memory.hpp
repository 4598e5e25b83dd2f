// The memory that ranks of a split hold, and the least time that recompute needs to make it fit.
//
// At any moment of its program a rank holds, of its stages s, which keep held(s) microbatches then
// and left(s) for W alone, and turning(s) of which begin a backward,
//
//   sum of own(s) + held(s) x saved(s) - freed(s) + left(s) x for_weight(s) + turning(s) x turn(s)
//
// bytes or more. Units free by recompute what their choices say (LayerChoice::freed), less what the
// last one of a stage has made again where a backward begins; but never what a stage keeps that
// recomputes all: given(s). So for any prices a(s) >= 0 of seconds that the backwards of a stage
// take longer, x(s) each,
//
//   sum of a(s) x(s) >= sum of own(s) + held(s) x saved(s) + left(s) x for_weight(s)
//                       + turning(s) x turn(s) - limit
//                       + sum over units of the stage, the least over choices of
//                         (a(s) x seconds - freed(s)),
//
// the Lagrangian dual of a multiple-choice knapsack. Bytes of a stage [b, e) count as until(e) -
// before(b), which is never more than they are, so that the right side is a sum over the begins of
// stages, like the lengths of paths (split_times.hpp).
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "planner/bounds/chain_memory.hpp"
#include "planner/bounds/layer_choices.hpp"
#include "planner/paths/split_times.hpp"

namespace penstock {

/// Relative: prices that are paid all but so much are, with the solver's tolerance.
inline constexpr double paid_within = 1e-6;

/// Prices by stage: of a byte of its own, of one of each microbatch, of one of those that it keeps
/// whatever it recomputes, of one for W, of one that its backward takes as it begins, of one that
/// is there again then, of a unit, of a second of its backward; of the last, `whole` is what whole
/// units ask for (whole_recompute.hpp). `limit` is taken off for what fits.
struct MemoryPrices {
  std::vector<double> own, saved, given, for_weight, turn, again, unit, second, whole;
  double limit = 0;
  int rank = -1;  // whose memory they are of, where it is one's

  explicit MemoryPrices(size_t stages)
      : own(stages, 0.0),
        saved(own),
        given(own),
        for_weight(own),
        turn(own),
        again(own),
        unit(own),
        second(own),
        whole(own) {}
  bool any(size_t stage) const;
  /// All but those of seconds.
  void add(const MemoryPrices& other, double times);
};

class SplitMemory {
 public:
  /// `units`: their choices, in seconds of a backward on the fastest rank; `for_weight`: what each
  /// keeps of a microbatch between I and W at least, or empty. `limits`: bytes, of each rank.
  /// Microbatch 0 takes `first` times as long to recompute.
  SplitMemory(const StageTable& bytes, const std::vector<LayerChoices>& units,
              const std::vector<int64_t>& for_weight, const Placement& placement,
              const RankSpeeds& speeds, std::vector<HeldAtOnce> moments,
              std::vector<int64_t> limits, double first);

  int stages() const { return static_cast<int>(rank_of_stage_.size()); }
  int ranks() const { return static_cast<int>(limits_.size()); }
  /// That any rank may hold.
  int64_t most_bytes() const { return *std::ranges::max_element(limits_); }

  /// By how much a path of those weights is longer for each second that a stage's backwards are.
  std::vector<double> longer(const SplitTimes& times, const Times& path) const;
  /// Adds to the times the seconds by which the backwards of each stage are longer.
  void lengthen(const SplitTimes& of, const std::vector<double>& longer_s, Times& times) const;

  /// The sum above for a split, apart by begins of stages.
  class Priced {
   public:
    Priced(const SplitMemory& memory, const MemoryPrices& prices);
    /// The part that depends on where stage `stage` > 0 begins; and what depends on no begin.
    double of_begin(size_t stage, int unit) const {
      return until_[stage - 1][static_cast<size_t>(unit)] -
             before_[stage][static_cast<size_t>(unit)];
    }
    double of_ends() const { return ends_; }
    double of(const std::vector<int>& begins) const;
    const MemoryPrices& prices() const { return prices_; }

   private:
    MemoryPrices prices_;
    std::vector<std::vector<double>> until_, before_;  // by stage and unit
    double ends_ = 0;
  };

  /// For each rank that holds too much in a mixture of splits, though backwards of its stages take
  /// so many `seconds` longer, prices for which those and what it owes pay too little. The highest
  /// price of a second of a backward is the number of microbatches; where no second helps, a unit's
  /// share of the limit costs `most`.
  std::vector<MemoryPrices> broken(const std::vector<std::vector<SplitTimes::Place>>& begins,
                                   const std::vector<double>& seconds,
                                   const std::vector<double>& owed, double most) const;

  /// A price of the bytes of all ranks, each when it holds most microbatches; `all_freed`: of those
  /// that are left when all that can be recomputed is.
  MemoryPrices of_all_ranks(double byte, bool all_freed) const;

 private:
  /// Along the hull of a unit's choices, for so many microbatches, some of them turning.
  struct Step {
    size_t unit;
    double seconds, bytes;
  };
  using Steps = std::vector<Step>;     // the cheapest bytes first
  using Counts = std::pair<int, int>;  // held, turning
  struct Sums {
    std::vector<double> until, before;  // by unit
  };
  /// The bytes that so many seconds of a stage's backwards free.
  struct Freed {
    double bytes, per_second;  // the latter for further seconds
  };
  /// Bytes of a stage in a mixture.
  struct Mean {
    double own, saved, given, for_weight, turn;
    std::vector<double> shares;  // of units
    double seconds;              // of a backward, longer on the fastest rank
    std::map<Counts, Freed> freed;
  };
  /// The bytes that a stage keeps of its microbatches.
  struct Kept {
    double bytes, per_second;
    bool all_freed;
  };
  Steps steps_of(const Counts& counts) const;
  Kept kept(const HeldAtOnce& moment, size_t stage, Mean& of) const;
  Freed most_freed(const Steps& steps, const Mean& of) const;
  std::vector<Mean> means(const std::vector<std::vector<SplitTimes::Place>>& begins,
                          const std::vector<double>& seconds) const;
  double excess(const HeldAtOnce& moment, std::vector<Mean>& means) const;
  MemoryPrices prices(const HeldAtOnce& moment, std::vector<Mean>& means, double most) const;
  double least_of(size_t unit, const MemoryPrices& prices, size_t stage, double again) const;
  Sums sums_of(const StageTable& bytes, const std::function<int64_t(const StageBytes&)>& of) const;

  std::vector<int> rank_of_stage_;
  std::vector<double> speed_;  // by stage
  int microbatches_;
  size_t units_;
  std::vector<LayerChoices> choices_;  // by unit
  std::map<Counts, Steps> steps_;      // of all moments
  Sums own_, saved_, given_, for_weight_, turn_;
  std::vector<double> again_;  // by the unit that a stage ends before
  std::vector<HeldAtOnce> moments_;
  std::vector<int64_t> limits_;
  double first_;
};

}  // namespace penstock
