// The adaptive schedule: actions placed one after the other on the real, unequal stage times, under
// a memory cap, with the backward in two parts wherever that helps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pipeline/plan/plan.hpp"
#include "pipeline/program/lowering.hpp"
#include "pipeline/program/program.hpp"
#include "simulator/costs/memory_limit.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/network/network.hpp"

namespace penstock {

struct AdaptiveProblem {
  std::vector<int> rank_of_stage;  // any number of stages on each rank
  int ranks = 1, microbatches = 1;
  std::vector<Flow> flows;
  Costs costs;
  Network network;
  MemoryLimit memory;  // the cap
};

/// A plan's.
AdaptiveProblem adaptive_problem(const Plan& plan, std::vector<Flow> flows, Costs costs,
                                 Network network, MemoryLimit memory);

struct FoundAdaptive {
  std::optional<Program> program;
  int64_t actions = 0;  // that could have been simulated in the time that it took to find
};

/// The fastest in simulation of what a list scheduler makes under several rules, of every named
/// schedule that runs these stages on these ranks and of the best of these reordered, of those that
/// keep to the cap; so never slower than the best named one. Deterministic. No program
/// where nothing keeps to the cap.
FoundAdaptive find_adaptive(const AdaptiveProblem& problem);

/// As find_adaptive, but throws InputError where nothing keeps to the cap, naming the least that
/// was needed.
Program adaptive(const AdaptiveProblem& problem);

}  // namespace penstock
