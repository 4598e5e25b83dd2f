// The paths of chain_bound.hpp through one stage, and those through two.
#include <algorithm>

#include "planner/bounds/chain_bound.hpp"

namespace penstock {

/// The rank's own work, with all that it receives and all that it sends before its last B; or a
/// path that leaves it.
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
/// behind is not linked the trip turns before it, on a rank that has no fewer in flight than the
/// last.
double ChainBound::trip(const Stage& s, bool first_forward, bool first_backward) const {
  const std::vector<double>& f = first_forward ? forward0_ : forward_;
  const std::vector<double>& b = first_backward ? backward0_ : backward_;
  const bool whole = reach_[s.begin] == units_;
  const int last = std::max(s.end, reach_[s.begin]);
  const double overhead = actions(first_forward, first_backward) * (whole ? s.left : 1);
  const double transfers = whole && s.left > 1 ? transfer(s.end) + s.transfers : 0.0;
  const double again_s = again(s.again + (whole ? s.again_behind : 0.0), first_backward);
  return f[last] - f[s.begin] + b[last] - b[s.begin] + overhead + transfers + again_s;
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
         actions(first_forward, first_backward) * (whole ? s.left - 1 : 1) +
         (whole ? s.transfers + again(s.again_behind, first_backward) : 0.0);
}

/// Costs of an F and a B whatever they do.
double ChainBound::actions(bool first_forward, bool first_backward) const {
  return 2 * costs_.action_s + (first_forward + first_backward) * costs_.first_action_s;
}

}  // namespace penstock
