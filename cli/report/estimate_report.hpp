// The report of estimates.
#pragma once

#include <string>

#include "estimate/fit.hpp"

namespace penstock::cli {

/// A row per class of operators: its efficiency, the measured times it was fitted to, its part of
/// the time; then the residual. Ends with an empty line.
std::string fit_report(const EfficiencyFit& fit, const std::string& profile, int columns);

/// `forward and backward  1.2 ms + 3.4 ms per sample, off by 5 %`: the time of a microbatch against
/// its size, fitted robustly; empty for fewer than three sizes.
std::string size_fit_report(const Profile& profile, int columns);

}  // namespace penstock::cli
