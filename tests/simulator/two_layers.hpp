// Two linear operators, one per stage, measured by hand:
//
//   x [batch, 4] ── op 0 (w0: 4 x 6) ── y [batch, 6] ── op 1 (w1: 6 x 2) ── z [batch, 2]
#pragma once

#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/costs/plan_costs.hpp"

namespace penstock::two_layers {

Graph model();
/// Operator 0 on stage 0, operator 1 on stage 1.
Slicing stages();
/// A microbatch of 8 samples on the CPU, with a link of 1e-4 s and 1e9 bytes a second.
Profile profile();
/// Two microbatches of 8 samples on two ranks, with AdamW.
Plan plan();
Costs costs(const Plan& of = plan(), const Slicing& slicing = stages());

}  // namespace penstock::two_layers
