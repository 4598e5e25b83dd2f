#include "planner/splits/placed_space.hpp"

#include <algorithm>
#include <utility>

#include "planner/bounds/whole_units.hpp"

namespace penstock {

PlacedSpace::PlacedSpace(ChainCosts costs, std::shared_ptr<const StageTable> bytes,
                         Placement placement, RankSpeeds speeds, std::vector<int64_t> less,
                         std::optional<Recompute> recompute, SplitNeeds least)
    : costs_(std::move(costs)),
      bytes_(std::move(bytes)),
      placement_(std::move(placement)),
      speeds_(std::move(speeds)),
      less_(std::move(less)),
      recompute_(std::move(recompute)),
      least_(least),
      units_(costs_.units()),
      sums_(costs_, placement_.microbatches, WorkSums::prefixes(units_)),
      choice_(costs_, stages()) {
  for (int cut = 1; cut < units_; ++cut) whole_ = whole_ && linked(cut);
  heads_ = whole_ || placement_.one_stage_per_rank();
  count_equal_units();
  if (placement_.one_stage_per_rank() && whole_) tabulate();
}

/// The forwards that run again on a rank that would keep so much, of that many microbatches at
/// most.
double PlacedSpace::recompute_s(int64_t kept_bytes, int held) const {
  if (!recompute_ || kept_bytes <= recompute_->limit_bytes) return 0;
  const auto excess = static_cast<double>(kept_bytes - recompute_->limit_bytes);
  return recompute_->least.seconds(excess / held);
}

double PlacedSpace::inputs(int begin, int end, int stage) const {
  const double sum_s = sums_.inputs(begin, end, 1) / speed_of_stage(stage);
  if (!placement_.one_stage_per_rank() || !recompute_) return sum_s;
  const StageBytes& bytes = bytes_->at(begin, end);
  const int held = placement_.held[static_cast<size_t>(stage)];
  const int64_t kept_bytes = bytes.kept(held) + less(stage);
  return sum_s + recompute_s(kept_bytes, held) / speed_of_stage(stage);
}

/// After the last I of stage 0.
double PlacedSpace::tail_of_first(int end) const {
  return sums_.weight_once(0, end) / speed_of_stage(0) + sums_.reduce(0, end) +
         (whole_ ? costs_.reduce_s : 0.0);
}

/// The transfer behind a stage, there, or there and back.
double PlacedSpace::cross(int stage, int cut, bool back) const {
  const auto s = static_cast<size_t>(stage);
  if (placement_.rank_of_stage[s] == placement_.rank_of_stage[s + 1]) return 0;
  const auto at = static_cast<size_t>(cut) - 1;
  return costs_.cut_forward_s[at] + (back ? costs_.cut_backward_s[at] : 0.0);
}

void PlacedSpace::hold(int begin, int end, int stage, RankLoad& rank) const {
  const StageBytes& bytes = bytes_->at(begin, end);
  const int held = placement_.held[static_cast<size_t>(stage)];
  const bool alone = placement_.one_stage_per_rank();
  const int64_t own = bytes.always - (alone ? 0 : bytes.common);
  const int64_t shared = alone ? 0 : bytes.received;
  const int64_t each = recompute_ ? bytes.least() : bytes.per_microbatch;
  rank.bytes += own + held * std::max<int64_t>(0, each - shared);
  rank.kept_bytes += own + held * (bytes.per_microbatch - shared);
  rank.held = std::max(rank.held, held);
}

SplitSpace::Prefix PlacedSpace::extend(const Prefix& known, int begin, int end, int left) const {
  const int stage = stages() - left;
  Prefix next = known;
  if (next.ranks.empty()) next.ranks.resize(static_cast<size_t>(placement_.ranks));
  if (begin == 0 && heads_) next.path.base = tail_of_first(end);
  RankLoad& rank =
      next.ranks[static_cast<size_t>(placement_.rank_of_stage[static_cast<size_t>(stage)])];
  if (!rank.begun) rank = {.begun = true, .bytes = less(stage), .kept_bytes = less(stage)};
  const double speed_here = speed_of_stage(stage);
  const double forwards_s = sums_.forwards(begin, end) / speed_here;
  const double inputs_s = inputs(begin, end, stage) - forwards_s;
  rank.forwards_s = std::max(rank.forwards_s, next.head_s) + forwards_s;
  rank.inputs_s = std::max(rank.inputs_s, next.path.base - next.head_s) + inputs_s;
  rank.backwards_s += inputs_s + sums_.weights(begin, end) / speed_here + sums_.reduce(begin, end);
  rank.optimizer_s += sums_.optimizer(begin, end) / speed_here;
  hold(begin, end, stage, rank);
  next.bytes = std::max(known.bytes, rank.bytes);
  const double again_s =
      placement_.one_stage_per_rank() ? 0.0 : recompute_s(rank.kept_bytes, rank.held) / speed_here;
  next.path.longest = std::max(
      known.path.longest, rank.forwards_s + again_s + std::max(rank.inputs_s, rank.backwards_s));
  next.path.optimizer = std::max(known.path.optimizer, rank.optimizer_s);
  if (end == units_) return next;
  if (!heads_ || !linked(end)) {
    next.path.base = next.head_s = 0;
    return next;
  }
  const double forward_s = sums_.forward_once(begin, end) / speed_here;
  next.head_s += forward_s + cross(stage, end, false);
  next.path.base += forward_s + sums_.input_once(begin, end) / speed_here + cross(stage, end, true);
  return next;
}

/// Seconds before `count` ranks that begin one unit after the other.
double PlacedSpace::fill(int begin, int count) const {
  double sum_s = 0;
  for (int later = 1; whole_ && later < count && begin + later <= units_; ++later) {
    sum_s += sums_.bare_forward(begin, begin + later);
  }
  return sum_s;
}

/// The mean end of the ranks that have stages to come, which share what is left: of ranks of
/// unequal speed, weighted by speed, since what a rank does in a time grows with it.
double PlacedSpace::mean(const Prefix& known, int begin, int left) const {
  const auto from = placement_.rank_of_stage.begin() + (stages() - left);
  std::vector<char> open(static_cast<size_t>(placement_.ranks), 0);
  for (auto rank = from; rank != placement_.rank_of_stage.end(); ++rank) {
    open[static_cast<size_t>(*rank)] = 1;
  }
  double ends_s = 0, all_s = 0, together = 0;
  int new_ranks = 0;
  for (size_t rank = 0; rank < open.size(); ++rank) {
    if (!open[rank]) continue;
    const double speed_here = speed(static_cast<int>(rank));
    together += speed_here;
    if (!known.ranks.empty() && known.ranks[rank].begun) {
      const RankLoad& load = known.ranks[rank];
      const double forwards_s = std::max(load.forwards_s, known.head_s);
      ends_s += speed_here * (forwards_s + std::max(load.inputs_s, known.path.base - known.head_s));
      all_s += speed_here * (forwards_s + load.backwards_s);
      continue;
    }
    ++new_ranks;
    ends_s += speed_here * (whole_ ? known.path.base : 0.0);
    all_s += speed_here * (whole_ ? known.head_s : 0.0);
  }
  const double inputs_s = sums_.inputs(begin, units_, left);
  const double after_s = sums_.weights_alone(begin, units_) +
                         placement_.microbatches * choice_.longer_s(begin, left) +
                         speeds_.slowest() * sums_.reduce(begin, units_);
  const double begun_s = speeds_.slowest() * fill(begin, new_ranks);
  return (std::max(ends_s + inputs_s, all_s + inputs_s + after_s) + begun_s) / together;
}

/// Seconds of each unit on the fastest rank in all of a step, and the units of the size for which
/// it matters most that they are whole.
void PlacedSpace::count_equal_units() {
  std::vector<double> unit_s;
  for (int unit = 0; unit < units_; ++unit) {
    const double weight_s =
        costs_.weight_s.empty() ? 0 : costs_.weight_s[static_cast<size_t>(unit)];
    unit_s.push_back(sums_.inputs(unit, unit + 1, 0) + placement_.microbatches * weight_s);
  }
  equal_s_ = WholeUnits(unit_s).equal_size_s(placement_.ranks);
  equal_from_.assign(static_cast<size_t>(units_) + 1, 0);
  for (int unit = units_ - 1; unit >= 0; --unit)
    equal_from_[static_cast<size_t>(unit)] = equal_from_[static_cast<size_t>(unit) + 1] +
                                             (unit_s[static_cast<size_t>(unit)] >= equal_s_);
}

/// The last end of the ranks that have stages to come, which share units of equal size.
double PlacedSpace::shared(const Prefix& known, int begin, int left) const {
  std::vector<double> busy_s, each_s;
  std::vector<char> seen(static_cast<size_t>(placement_.ranks), 0);
  int new_ranks = 0;
  for (int stage = stages() - left; stage < stages(); ++stage) {
    const auto rank = static_cast<size_t>(placement_.rank_of_stage[static_cast<size_t>(stage)]);
    if (std::exchange(seen[rank], 1)) continue;
    each_s.push_back(equal_s_ / speed(static_cast<int>(rank)));
    if (!known.ranks.empty() && known.ranks[rank].begun) {
      const RankLoad& load = known.ranks[rank];
      busy_s.push_back(std::max(load.forwards_s, known.head_s) +
                       (costs_.weight_s.empty()
                            ? std::max(load.inputs_s, known.path.base - known.head_s)
                            : load.backwards_s));
      continue;
    }
    const double before_s = costs_.weight_s.empty() ? known.path.base : known.head_s;
    busy_s.push_back(
        whole_ ? before_s + sums_.bare_forward(begin, std::min(units_, begin + new_ranks++)) : 0.0);
  }
  return last_done_s(busy_s, each_s, equal_from_[static_cast<size_t>(begin)]);
}

/// One microbatch through all that is left, and back.
double PlacedSpace::through(const Prefix& known, int begin) const {
  if (!whole_ || begin >= units_) return 0;
  return known.path.base + sums_.bare_forward(begin, units_) + sums_.bare_input(begin, units_);
}

double PlacedSpace::min_s(const Prefix& known, int begin, int left) const {
  double longest = known.path.longest;
  if (left > 0) {
    longest = std::max(
        {longest, mean(known, begin, left), shared(known, begin, left), through(known, begin)});
    if (!suffix_.empty()) {
      const double shift =
          std::min(known.path.base - base_before(begin), known.head_s - head_before(begin));
      longest = std::max(longest, suffix_[index(begin, left)] + std::max(0.0, shift));
    }
  }
  return std::max(longest + known.path.optimizer, least_.seconds);
}

int64_t PlacedSpace::min_bytes(const Prefix& known, int, int) const {
  return std::max(known.bytes, least_.bytes);
}

double PlacedSpace::split_s(const std::vector<int>& begins) const {
  Prefix known;
  for (size_t stage = 0; stage < begins.size(); ++stage) {
    const int end = stage + 1 < begins.size() ? begins[stage + 1] : units_;
    known = extend(known, begins[stage], end, static_cast<int>(begins.size() - stage));
  }
  return min_s(known, units_, 0);
}

/// One microbatch through the units before, in one stage: never more than what passes before a
/// rank.
double PlacedSpace::head_before(int begin) const { return sums_.bare_forward(0, begin); }
double PlacedSpace::base_before(int begin) const {
  return sums_.bare_forward(0, begin) + sums_.bare_input(0, begin);
}

double PlacedSpace::longest(int begin, int end, int stage) const {
  const double inputs_s = inputs(begin, end, stage);
  return std::max(base_before(begin) + inputs_s,
                  head_before(begin) + inputs_s +
                      sums_.weights(begin, end) / speed_of_stage(stage) + sums_.reduce(begin, end));
}

/// Fewer stages than `left` are allowed here, any of them left out, so that the rest never takes
/// longer from a later unit on, and the best end of a stage is where its own time meets that of the
/// rest.
void PlacedSpace::tabulate() {
  const int ranks = placement_.ranks;
  suffix_.assign(static_cast<size_t>(ranks + 1) * static_cast<size_t>(units_ + 1), 0.0);
  for (int left = 1; left <= ranks; ++left) {
    for (int begin = 0; begin < units_; ++begin) {
      const int stage = ranks - left;
      double& least = suffix_[index(begin, left)];
      if (left == 1) {
        least = longest(begin, units_, stage);
        continue;
      }
      int low = begin + 1, high = units_;  // the first end whose own time is not below the rest's
      while (low < high) {
        const int end = (low + high) / 2;
        if (longest(begin, end, stage) >= suffix_[index(end, left - 1)]) {
          high = end;
        } else {
          low = end + 1;
        }
      }
      least = longest(begin, low, stage);
      if (low > begin + 1) least = std::min(least, suffix_[index(low - 1, left - 1)]);
      if (!speeds_.equal() || !less_.empty())
        least = std::min(least, suffix_[index(begin, left - 1)]);
    }
  }
}

}  // namespace penstock
