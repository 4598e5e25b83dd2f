// The costs of a profile that a plan's stages have.
#pragma once

#include <optional>

#include "graph/cuts/slice.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

/// W follows I in this plan's program (where that is known by the schedule's name).
bool splits_backward(const Plan& plan);

/// Costs at plan.microbatch. Throws InputError if the profile is of another model, did not measure
/// that size (naming those it did), or knows backwards as a whole where the plan splits them.
const MicrobatchCosts& measured(const Plan& plan, const Graph& model, const Profile& profile);

/// These with what the layers of the slicing choose to recompute; absent where none chooses.
std::optional<MicrobatchCosts> chosen(const Plan& plan, const Graph& model, const Slicing& slicing,
                                      const Profile& profile);

}  // namespace penstock
