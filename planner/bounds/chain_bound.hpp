// The bound of bounds.hpp taken apart along the chain, so that a search can bound a split of which
// it knows only the first stages; and sharper where it knows in which order ranks run F and B.
//
// Where F and B alternate (Schedule::alternates) with k microbatches in flight on rank r and K <= k
// on the last:
//
//   rank r     F0 F1 … F(k-1) |trip| B0 Fk B1 F(k+1) … F(M-1) |trip| B(M-k) … B(M-1)
//
// a *trip* of F(i) runs down the chain to the last stage and back; there F(i) comes before
// B(i-K+1), so it returns as B(i-K+1) and costs R = the F and B of every stage from r on and the
// transfers between them. Paths through rank r are: its own work alone; its own work with one trip,
// at the first or the last F that can make one; with both; and (K = 1) a trip at every k-th F, the
// rest being the rank's own. Each is sandwiched between head_r and tail_r, the way of the first
// microbatch to rank r and of the last one back. A path over a channel replaces the rank's work by
// the M messages that pass one after another. Where memory is limited the backward of a stage takes
// longer by the least that lets it fit.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "planner/bounds/bounds.hpp"
#include "planner/bounds/forwards_first.hpp"
#include "planner/bounds/stage_recompute.hpp"

namespace penstock {

/// Everything is in seconds. A split into exactly `ranks` stages is `begins`, begins[0] = 0.
class ChainBound {
 public:
  /// `in_flight` empty: valid for any order of F and B. `recompute` null: nothing is.
  ChainBound(ChainCosts costs, int ranks, int microbatches, std::vector<int> in_flight = {},
             std::shared_ptr<const StageRecompute> recompute = nullptr);

  int ranks() const { return ranks_; }
  int units() const { return units_; }

  /// The bound of a split of which only the first stages are known.
  struct Prefix {
    double base = 0;       // head + tail of the next stage
    double longest = 0;    // path so far
    double optimizer = 0;  // longest OPT so far
    ForwardsFirst::Prefix forwards_first;
  };
  /// Adds stage [begin, end), with `left` ranks from it on.
  Prefix extend(const Prefix& prefix, int begin, int end, int left) const;
  /// The least bound of all splits that go on with unit `begin` in `left` more stages.
  double least(const Prefix& prefix, int begin, int left) const;
  /// Over all splits.
  double chain() const { return least({}, 0, ranks_); }
  /// The bound of one split: the maximum over its stages, and for schedules that run all F first
  /// also that of forwards_first.hpp.
  double split(const std::vector<int>& begins) const;

 private:
  /// Costs of one stage.
  struct Stage {
    int begin, end, left;        // units [begin, end); ranks from this one on
    double transfers;            // of all cuts behind the stage's own end, there and back
    double again, again_behind;  // recompute of a backward here, and in all stages behind
    double forward, backward;    // of microbatches after the first
    double forward0, backward0;  // of microbatch 0
    double head, tail;           // of the microbatch that leads, and of the one that comes last
    CutCompute before, after;    // of the cuts at its begin and end
    // Work of the rank with the compute of what it sends in between.
    double forwards(int n) const { return n * (forward + after.send_forward_s); }
    double backwards(int n) const { return n * (backward + before.send_backward_s); }
    double forwards_from_0(int n) const { return n > 0 ? forwards(n) + forward0 - forward : 0.0; }
    double backwards_from_0(int n) const {
      return n > 0 ? backwards(n) + backward0 - backward : 0.0;
    }
  };
  size_t index(int begin, int left) const {
    return static_cast<size_t>(left) * (units_ + 1) + begin;
  }
  Stage measure(int begin, int end, int left) const;
  ForwardsFirst::Stage passes(const Stage& s) const;
  double again_s(int begin, int end, int left) const;
  /// Recompute of a backward that may be microbatch 0's.
  double again(double each_s, bool first) const {
    return first && recompute_ ? recompute_->first() * each_s : each_s;
  }
  bool linked(int cut) const { return costs_.linked.empty() || costs_.linked[cut - 1]; }
  double transfer(int cut) const {
    return costs_.cut_forward_s[cut - 1] + costs_.cut_backward_s[cut - 1];
  }
  double head_and_tail(const Stage& s) const;
  double stage(int begin, int end, int left) const;
  double reduce_s() const { return reach_[0] == units_ ? costs_.reduce_s : 0.0; }
  double path(const Stage& s) const;
  double trip(const Stage& s, bool first_forward, bool first_backward) const;
  double ordered(const Stage& s) const;
  double over_channel(const Stage& s) const;
  double behind(const Stage& s, bool first_forward, bool first_backward) const;
  double actions(bool first_forward, bool first_backward) const;
  void tabulate();
  void tabulate(int begin, int left);

  ChainCosts costs_;
  int units_, ranks_, microbatches_;
  std::vector<int> in_flight_;
  std::shared_ptr<const StageRecompute> recompute_;
  std::vector<double> forward_, backward_, forward0_, backward0_, optimizer_;  // sums before unit i
  std::optional<ForwardsFirst> forwards_first_;  // of such schedules, where all cuts are linked
  std::vector<int> reach_;                 // first cut behind unit i that is not linked, else units
  std::vector<double> transfers_, again_;  // the least of a suffix, by index(begin, left)
  // The least over all splits of a suffix, likewise: of the longest path that head and tail of what
  // lies before go with (none behind a cut that is not linked), of any path, of the longest OPT.
  std::vector<double> joined_, suffix_, optimizer_suffix_;
};

}  // namespace penstock
