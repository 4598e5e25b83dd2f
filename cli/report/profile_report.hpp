// The report of `penstock profile`.
#pragma once

#include <string>

#include "graph/graph.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::cli {

/// So many operators are shown where more is asked for, but not how many.
inline constexpr int most_expensive = 10;

/// The device, each microbatch size with the step it would make on one device (not where `model` is
/// null), the `top` most expensive operators at the size with the fastest step, the links and the
/// probe. Lines have at most `columns` (0: any number). Ends with a newline.
std::string profile_report(const Profile& profile, const Graph* model, int top, int columns);

/// The note that `profile` and `plan` print on costs that are less sure than measured ones: an
/// estimate's (estimate/estimate.hpp), or that of a quick profile; empty for any other.
std::string costs_note(const Profile& profile);

}  // namespace penstock::cli
