// What is to be expected of a plan whose times vary, and how well two plans can be told apart.
#pragma once

#include <optional>
#include <vector>

#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/network/network.hpp"

namespace penstock {

/// Steps of one plan, each on the luck that every other plan's step of that number has, too.
struct Verdict {
  double expected_s = 0;          // the mean of drawn_s
  std::vector<double> drawn_s;    // with drawn times
  std::vector<double> shifted_s;  // on means that the profile might as well have measured
};

/// Steps that are drawn of each kind.
inline constexpr int judged_steps = 64;

/// Absent where the profile does not know what times vary by. `cluster`: the plan's, or null.
std::optional<Verdict> judged(const Profile& profile, const Cluster* cluster, const Plan& plan,
                              const Slicing& slicing, const Costs& costs, const Network& network);

/// The standard error of the share by which one plan is expected to be faster than another: that of
/// the means that the profile measured, as it shows in both steps, and that of having drawn so few
/// steps. What both plans share cancels.
double standard_error(const Verdict& one, const Verdict& other);

}  // namespace penstock
