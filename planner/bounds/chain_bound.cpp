#include "planner/bounds/chain_bound.hpp"

#include <algorithm>
#include <limits>

namespace penstock {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// sums[i] = a[0] + … + a[i - 1], of a + b; an empty b is zero.
std::vector<double> prefix_sums(const std::vector<double>& a, const std::vector<double>& b,
                                size_t units) {
  std::vector<double> sums(units + 1, 0.0);
  for (size_t i = 0; i < units; ++i)
    sums[i + 1] = sums[i] + (a.empty() ? 0.0 : a[i]) + (b.empty() ? 0.0 : b[i]);
  return sums;
}

}  // namespace

ChainBound::ChainBound(ChainCosts costs, int ranks, int microbatches, std::vector<int> in_flight,
                       std::shared_ptr<const StageRecompute> recompute)
    : costs_(std::move(costs)),
      units_(costs_.units()),
      ranks_(ranks),
      microbatches_(microbatches),
      in_flight_(std::move(in_flight)),
      recompute_(std::move(recompute)) {
  const size_t n = costs_.forward_s.size();
  forward_ = prefix_sums(costs_.forward_s, {}, n);
  backward_ = prefix_sums(costs_.backward_s, {}, n);
  forward0_ = prefix_sums(costs_.forward_s, costs_.first_forward_s, n);
  backward0_ = prefix_sums(costs_.backward_s, costs_.first_backward_s, n);
  optimizer_ = prefix_sums(costs_.optimizer_s, {}, n);
  reach_.assign(units_ + 1, units_);
  for (int unit = units_ - 2; unit >= 0; --unit)
    reach_[unit] = linked(unit + 1) ? reach_[unit + 1] : unit + 1;
  tabulate();
  const bool all_forwards_first = !in_flight_.empty() && in_flight_.back() == microbatches_;
  if (all_forwards_first && reach_[0] == units_)
    forwards_first_.emplace(costs_, ranks_, microbatches_, [this](int begin, int end, int left) {
      return passes(measure(begin, end, left));
    });
}

/// Microbatches that pass the stage one after the other.
ForwardsFirst::Stage ChainBound::passes(const Stage& s) const {
  const bool one = microbatches_ == 1;
  return {{s.forward0, one ? s.forward0 : s.forward, s.forwards(1)},
          {s.backward0, one ? s.backward0 : s.backward, s.backwards(1)}};
}

double ChainBound::again_s(int begin, int end, int left) const {
  if (!recompute_) return 0;
  const int held = in_flight_.empty() ? 1 : in_flight_[ranks_ - left];
  return recompute_->seconds(begin, end, held);
}

/// With a known order microbatch 0 leads on every rank and microbatch m - 1 comes last; with an
/// unknown one any of them may, so the shorter counts.
ChainBound::Stage ChainBound::measure(int begin, int end, int left) const {
  Stage s{};
  s.begin = begin;
  s.end = end;
  s.left = left;
  s.again = again_s(begin, end, left);
  s.forward = forward_[end] - forward_[begin] + costs_.action_s;
  s.backward = backward_[end] - backward_[begin] + costs_.action_s + s.again;
  const double first_action_s = costs_.action_s + costs_.first_action_s;
  s.forward0 = forward0_[end] - forward0_[begin] + first_action_s;
  s.backward0 = backward0_[end] - backward0_[begin] + first_action_s + again(s.again, true);
  if (begin > 0 && !costs_.cut_compute.empty()) s.before = costs_.cut_compute[begin - 1];
  if (end < units_ && !costs_.cut_compute.empty()) s.after = costs_.cut_compute[end - 1];
  const bool known = !in_flight_.empty(), one = microbatches_ == 1;
  s.head = known || one ? s.forward0 + s.before.receive_forward_s : std::min(s.forward, s.forward0);
  s.tail = one ? s.backward0 : known ? s.backward : std::min(s.backward, s.backward0);
  return s;
}

double ChainBound::head_and_tail(const Stage& s) const { return s.head + s.tail + transfer(s.end); }

ChainBound::Prefix ChainBound::extend(const Prefix& prefix, int begin, int end, int left) const {
  Prefix next;
  if (end < units_ && linked(end))
    next.base = prefix.base + head_and_tail(measure(begin, end, left));
  next.longest = std::max(prefix.longest, prefix.base + stage(begin, end, left));
  next.optimizer = std::max(prefix.optimizer, optimizer_[end] - optimizer_[begin]);
  if (forwards_first_)
    next.forwards_first =
        forwards_first_->extend(prefix.forwards_first, passes(measure(begin, end, left)), end);
  return next;
}

double ChainBound::least(const Prefix& prefix, int begin, int left) const {
  const double all_s =
      forwards_first_ ? forwards_first_->least(prefix.forwards_first, begin, left) : 0;
  if (left == 0) return std::max(prefix.longest, all_s) + prefix.optimizer + reduce_s();
  const size_t at = index(begin, left);
  return std::max({prefix.longest, prefix.base + joined_[at], suffix_[at], all_s}) +
         std::max(prefix.optimizer, optimizer_suffix_[at]) + reduce_s();
}

double ChainBound::stage(int begin, int end, int left) const {
  Stage s = measure(begin, end, left);
  s.transfers = left > 1 ? transfers_[index(end, left - 1)] : 0.0;
  s.again_behind = left > 1 ? again_[index(end, left - 1)] : 0.0;
  return path(s);
}

double ChainBound::split(const std::vector<int>& begins) const {
  const int ranks = static_cast<int>(begins.size());
  const auto end_of = [&](int rank) { return rank + 1 < ranks ? begins[rank + 1] : units_; };
  std::vector<double> behind(ranks, 0.0);  // transfers of the cuts behind each stage's own end
  for (int rank = ranks - 3; rank >= 0; --rank)
    behind[rank] = behind[rank + 1] + transfer(begins[rank + 2]);
  std::vector<double> again(ranks, 0.0);  // recompute behind each stage
  for (int rank = ranks - 2; rank >= 0; --rank)
    again[rank] = again[rank + 1] + again_s(begins[rank + 1], end_of(rank + 1), ranks - rank - 1);
  Prefix known;
  for (int rank = 0; rank < ranks; ++rank) {
    const int end = end_of(rank);
    Stage s = measure(begins[rank], end, ranks - rank);
    s.transfers = behind[rank];
    s.again_behind = again[rank];
    known.longest = std::max(known.longest, known.base + path(s));
    known.optimizer = std::max(known.optimizer, optimizer_[end] - optimizer_[begins[rank]]);
    if (end < units_) known.base = linked(end) ? known.base + head_and_tail(s) : 0.0;
    if (forwards_first_)
      known.forwards_first = forwards_first_->extend(known.forwards_first, passes(s), end);
  }
  return least(known, units_, 0);
}

void ChainBound::tabulate() {
  const size_t size = static_cast<size_t>(ranks_ + 1) * (units_ + 1);
  for (std::vector<double>* table : {&transfers_, &again_, &joined_, &suffix_, &optimizer_suffix_})
    table->assign(size, infinity);
  for (int left = 1; left <= ranks_; ++left)
    for (int begin = ranks_ - left; begin + left <= units_; ++begin) tabulate(begin, left);
}

void ChainBound::tabulate(int begin, int left) {
  const auto optimizer = [&](int end) { return optimizer_[end] - optimizer_[begin]; };
  const size_t at = index(begin, left);
  if (left == 1) {
    transfers_[at] = 0;
    again_[at] = again_s(begin, units_, 1);
    joined_[at] = suffix_[at] = stage(begin, units_, 1);
    optimizer_suffix_[at] = optimizer(units_);
    return;
  }
  for (int end = begin + 1; end + left - 1 <= units_; ++end) {
    const size_t rest = index(end, left - 1);
    transfers_[at] = std::min(transfers_[at], transfer(end) + transfers_[rest]);
    again_[at] = std::min(again_[at], again_s(begin, end, left) + again_[rest]);
    const double own = stage(begin, end, left);
    const double base = linked(end) ? head_and_tail(measure(begin, end, left)) : 0.0;
    joined_[at] = std::min(joined_[at], linked(end) ? std::max(own, base + joined_[rest]) : own);
    suffix_[at] = std::min(suffix_[at], std::max({own, base + joined_[rest], suffix_[rest]}));
    const double longest = std::max(optimizer(end), optimizer_suffix_[rest]);
    optimizer_suffix_[at] = std::min(optimizer_suffix_[at], longest);
  }
}

}  // namespace penstock
