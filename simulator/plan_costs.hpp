// From a profile to the costs of a plan's stages.
#pragma once

#include "graph/slice.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/profile.hpp"
#include "simulator/cluster.hpp"
#include "simulator/costs.hpp"

namespace penstock {

/// Costs of the stages of `slicing` at plan.microbatch: sums over the measured operators plus
/// accumulation, loss, overheads, optimizer; memory of parameters, gradients, optimizer state and
/// receive buffers. Throws InputError if the profile is of another model or did not measure that
/// microbatch size (naming those it did).
Costs plan_costs(const Plan& plan, const Graph& model, const Slicing& slicing,
                 const Profile& profile);

/// A ring all-reduce of that many bytes: each rank moves 2 (n - 1) / n of them, in 2 (n - 1) rounds.
double all_reduce_s(const Profile& profile, int64_t bytes, int64_t ranks);

/// The cluster's link where given, else the one between ranks that the profile measured, beside
/// compute where it has that. Throws InputError where there is neither.
Link plan_link(const Profile& profile, const Cluster* cluster);

}  // namespace penstock
