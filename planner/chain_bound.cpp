#include "planner/chain_bound.hpp"

#include <algorithm>
#include <limits>

namespace penstock {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// sums[i] = a[0] + … + a[i - 1], of a + b; an empty b is zero.
std::vector<double> prefix_sums(const std::vector<double>& a, const std::vector<double>& b, size_t units) {
  std::vector<double> sums(units + 1, 0.0);
  for (size_t i = 0; i < units; ++i)
    sums[i + 1] = sums[i] + (a.empty() ? 0.0 : a[i]) + (b.empty() ? 0.0 : b[i]);
  return sums;
}

/// F(0..k-1), then B(0) F(k) B(1) …, then the remaining B.
bool keeps_in_flight(const std::vector<Action>& actions, int rank, int k, int microbatches) {
  if (actions.size() != 2 * static_cast<size_t>(microbatches)) return false;
  int forwards = 0, backwards = 0;
  for (const Action& action : actions) {
    const bool forward = forwards < microbatches && forwards - backwards < k;
    const Action expected{rank, forward ? Kind::forward : Kind::backward, forward ? forwards++ : backwards++, -1, {}};
    if (!(action == expected)) return false;
  }
  return true;
}

}  // namespace

std::vector<int> in_flight(const Program& compute) {
  std::vector<int> result;
  for (int rank = 0; rank < compute.rank_count(); ++rank) {
    const auto& actions = compute.ranks[rank];
    const auto first_backward = std::find_if(actions.begin(), actions.end(),
                                             [](const Action& a) { return a.kind != Kind::forward; });
    const int k = static_cast<int>(first_backward - actions.begin());
    if (k < 1 || !keeps_in_flight(actions, rank, k, compute.microbatches)) return {};
    if (rank > 0 && k > result.back()) return {};
    result.push_back(k);
  }
  return result;
}

struct ChainBound::Stage {
  int begin, end, left;        // units [begin, end); ranks from this one on
  double transfers;            // of all cuts behind the stage's own end, there and back
  double forward, backward;    // of microbatches after the first
  double forward0, backward0;  // of microbatch 0
  double head, tail;           // of the microbatch that leads, and of the one that comes last
  CutCompute before, after;    // of the cuts at its begin and end
  // Work of the rank with the compute of what it sends in between.
  double forwards(int n) const { return n * (forward + after.send_forward_s); }
  double backwards(int n) const { return n * (backward + before.send_backward_s); }
  double forwards_from_0(int n) const { return n > 0 ? forwards(n) + forward0 - forward : 0.0; }
  double backwards_from_0(int n) const { return n > 0 ? backwards(n) + backward0 - backward : 0.0; }
};

ChainBound::ChainBound(ChainCosts costs, int ranks, int microbatches, std::vector<int> in_flight)
    : costs_(std::move(costs)),
      units_(costs_.units()),
      ranks_(ranks),
      microbatches_(microbatches),
      in_flight_(std::move(in_flight)) {
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
}

/// With a known order microbatch 0 leads on every rank and microbatch m - 1 comes last; with an
/// unknown one any of them may, so the shorter counts.
ChainBound::Stage ChainBound::measure(int begin, int end) const {
  Stage s{};
  s.begin = begin;
  s.end = end;
  s.forward = forward_[end] - forward_[begin] + costs_.action_s;
  s.backward = backward_[end] - backward_[begin] + costs_.action_s;
  s.forward0 = forward0_[end] - forward0_[begin] + costs_.action_s;
  s.backward0 = backward0_[end] - backward0_[begin] + costs_.action_s;
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
  if (end < units_ && linked(end)) next.base = prefix.base + head_and_tail(measure(begin, end));
  next.longest = std::max(prefix.longest, prefix.base + stage(begin, end, left));
  next.optimizer = std::max(prefix.optimizer, optimizer_[end] - optimizer_[begin]);
  return next;
}

double ChainBound::least(const Prefix& prefix, int begin, int left) const {
  if (left == 0) return prefix.longest + prefix.optimizer;
  const size_t at = index(begin, left);
  return std::max({prefix.longest, prefix.base + joined_[at], suffix_[at]}) +
         std::max(prefix.optimizer, optimizer_suffix_[at]);
}

double ChainBound::stage(int begin, int end, int left) const {
  Stage s = measure(begin, end);
  s.left = left;
  s.transfers = left > 1 ? transfers_[index(end, left - 1)] : 0.0;
  return path(s);
}

/// The rank's own work, with all that it receives and all that it sends before its last B; or a path
/// that leaves it.
double ChainBound::path(const Stage& s) const {
  const int m = microbatches_;
  const double receives = m * (s.before.receive_forward_s + s.after.receive_backward_s);
  double longest =
      s.forwards_from_0(m) + s.backwards_from_0(m) + receives - s.before.send_backward_s;
  if (in_flight_.empty()) return longest;
  longest = std::max(longest, ordered(s));
  return s.left > 1 && linked(s.end) ? std::max(longest, over_channel(s)) : longest;
}

/// From the start of an F of the stage to the end of the B that its trip returns as. Where a cut
/// behind is not linked the trip turns before it, on a rank that has no fewer in flight than the last.
double ChainBound::trip(const Stage& s, bool first_forward, bool first_backward) const {
  const std::vector<double>& f = first_forward ? forward0_ : forward_;
  const std::vector<double>& b = first_backward ? backward0_ : backward_;
  const bool whole = reach_[s.begin] == units_;
  const int last = std::max(s.end, reach_[s.begin]);
  const double actions = 2 * costs_.action_s * (whole ? s.left : 1);
  const double transfers = whole && s.left > 1 ? transfer(s.end) + s.transfers : 0.0;
  return f[last] - f[s.begin] + b[last] - b[s.begin] + actions + transfers;
}

/// The longest of the rank's paths that make at least one trip (see the header).
double ChainBound::ordered(const Stage& s) const {
  const int m = microbatches_, k = in_flight_[ranks_ - s.left], last = in_flight_.back();
  const double early = s.forwards_from_0(last - 1) + trip(s, last == 1, true);
  const double late = trip(s, m == 1, m == last) + s.backwards(last - 1);
  double longest = early + s.backwards(m - 1) + s.forwards(m - k);
  longest = std::max(longest, s.forwards_from_0(m - 1) + s.backwards_from_0(m - k) + late);
  if (m - 1 < k) return longest;
  longest = std::max(longest, early + s.forwards(m - 1 - k) + s.backwards(m - 1 - k) + late);
  if (last > 1) return longest;
  const int more = (m - 1) / k, rest = m - 1 - more * k;  // trips after the first, own F and B
  return std::max(longest, early + more * late + s.forwards(rest) + s.backwards(rest));
}

/// F(0), then M messages through the channel behind the stage, the last of which makes the rest of
/// the trip; or a trip whose gradients come back as M messages. Schedules that run all F before any
/// B pass both.
double ChainBound::over_channel(const Stage& s) const {
  const int m = microbatches_, last = in_flight_.back();
  const double forward = (m - 1) * (costs_.cut_forward_s[s.end - 1] - costs_.propagation_s);
  const double backward = (m - 1) * (costs_.cut_backward_s[s.end - 1] - costs_.propagation_s);
  const double to_and_fro = s.forward0 + transfer(s.end);
  const double own = m == 1 ? s.backward0 : s.backward;
  if (last == m) return to_and_fro + forward + behind(s, m == 1, true) + backward + own;
  return to_and_fro + own +
         std::max(forward + behind(s, false, false) + s.backwards(last - 1),
                  behind(s, last == 1, true) + backward);
}

/// The trip from the next stage on.
double ChainBound::behind(const Stage& s, bool first_forward, bool first_backward) const {
  const std::vector<double>& f = first_forward ? forward0_ : forward_;
  const std::vector<double>& b = first_backward ? backward0_ : backward_;
  const int last = reach_[s.end];
  const bool whole = last == units_;
  return f[last] - f[s.end] + b[last] - b[s.end] +
         2 * costs_.action_s * (whole ? s.left - 1 : 1) + (whole ? s.transfers : 0.0);
}

namespace {

/// m messages in order through ranks and channels one after another: when the first has passed, and
/// the longest way on which m pass one of them in a row.
struct Procession {
  int m;
  double head = 0, longest = -infinity;
  void pass(double first, double last, double every) {
    longest = std::max(longest + last, head + first + (m - 1) * every);
    head += first;
  }
};

}  // namespace

double ChainBound::forwards_then_backwards(const std::vector<int>& begins) const {
  const int m = microbatches_, ranks = static_cast<int>(begins.size());
  const auto end = [&](int rank) { return rank + 1 < ranks ? begins[rank + 1] : units_; };
  Procession down{m}, up{m};
  for (int rank = 0; rank < ranks; ++rank) {
    const Stage s = measure(begins[rank], end(rank));
    down.pass(s.forward0, m == 1 ? s.forward0 : s.forward, s.forwards(1));
    if (rank + 1 == ranks) break;
    const double x = costs_.cut_forward_s[s.end - 1];
    down.pass(x, x, x - costs_.propagation_s);
  }
  for (int rank = ranks - 1; rank >= 0; --rank) {
    const Stage s = measure(begins[rank], end(rank));
    up.pass(s.backward0, m == 1 ? s.backward0 : s.backward, s.backwards(1));
    if (rank == 0) break;
    const double y = costs_.cut_backward_s[s.begin - 1];
    up.pass(y, y, y - costs_.propagation_s);
  }
  return down.longest + up.longest;
}

double ChainBound::split(const std::vector<int>& begins) const {
  const int ranks = static_cast<int>(begins.size());
  std::vector<double> behind(ranks, 0.0);  // transfers of the cuts behind each stage's own end
  for (int rank = ranks - 3; rank >= 0; --rank)
    behind[rank] = behind[rank + 1] + transfer(begins[rank + 2]);
  Prefix known;
  for (int rank = 0; rank < ranks; ++rank) {
    const int end = rank + 1 < ranks ? begins[rank + 1] : units_;
    Stage s = measure(begins[rank], end);
    s.left = ranks - rank;
    s.transfers = behind[rank];
    known.longest = std::max(known.longest, known.base + path(s));
    known.optimizer = std::max(known.optimizer, optimizer_[end] - optimizer_[begins[rank]]);
    if (end < units_) known.base = linked(end) ? known.base + head_and_tail(s) : 0.0;
  }
  const bool all_forwards_first = !in_flight_.empty() && in_flight_.back() == microbatches_;
  if (all_forwards_first && reach_[0] == units_)
    known.longest = std::max(known.longest, forwards_then_backwards(begins));
  return known.longest + known.optimizer;
}

void ChainBound::tabulate() {
  const size_t size = static_cast<size_t>(ranks_ + 1) * (units_ + 1);
  for (std::vector<double>* table : {&transfers_, &joined_, &suffix_, &optimizer_suffix_})
    table->assign(size, infinity);
  for (int left = 1; left <= ranks_; ++left)
    for (int begin = ranks_ - left; begin + left <= units_; ++begin) tabulate(begin, left);
}

void ChainBound::tabulate(int begin, int left) {
  const auto optimizer = [&](int end) { return optimizer_[end] - optimizer_[begin]; };
  const size_t at = index(begin, left);
  if (left == 1) {
    transfers_[at] = 0;
    joined_[at] = suffix_[at] = stage(begin, units_, 1);
    optimizer_suffix_[at] = optimizer(units_);
    return;
  }
  for (int end = begin + 1; end + left - 1 <= units_; ++end) {
    const size_t rest = index(end, left - 1);
    transfers_[at] = std::min(transfers_[at], transfer(end) + transfers_[rest]);
    const double own = stage(begin, end, left);
    const double base = linked(end) ? head_and_tail(measure(begin, end)) : 0.0;
    joined_[at] = std::min(joined_[at], linked(end) ? std::max(own, base + joined_[rest]) : own);
    suffix_[at] = std::min(suffix_[at], std::max({own, base + joined_[rest], suffix_[rest]}));
    const double longest = std::max(optimizer(end), optimizer_suffix_[rest]);
    optimizer_suffix_[at] = std::min(optimizer_suffix_[at], longest);
  }
}

}  // namespace penstock
