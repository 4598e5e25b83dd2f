// Shared by the tests of this folder: stages of a plan, drawn programs.
#pragma once

#include <string>
#include <vector>

#include "pipeline/plan/plan.hpp"
#include "pipeline/program/lowering.hpp"
#include "pipeline/program/schedule.hpp"
#include "tests/base/support.hpp"

namespace penstock {

/// The stages of `plan`.
Slicing sliced(const Plan& plan, const Graph& model);
/// Why `model` cannot be sliced so; "" if it can.
std::string refusal(const Plan& plan, const Graph& model);

/// Draws a compute-only program of a chain of stages as a grid, a row per rank, two characters and
/// a space per unit of time: F, I and W take one unit, B two, an overlap as much as its parts;
/// transfers are free. Small letters are those of a rank's later stages, `.` is idle.
std::string draw(const Program& program);

/// The largest number of (stage, microbatch) pairs that a rank holds at once: from F to B or, where
/// the backward is split, to W.
int max_held(const std::vector<Action>& actions);

}  // namespace penstock
