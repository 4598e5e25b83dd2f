// Inputs of a plan's simulation, from the files that the plan names.
#pragma once

#include <optional>
#include <string>

#include "cli/inputs/overrides.hpp"
#include "pipeline/plan/cuda_graphs.hpp"
#include "pipeline/plan/plan.hpp"
#include "simulator/costs/memory_limit.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/network/network.hpp"
#include "simulator/noise/step_noise.hpp"

namespace penstock::cli {

struct PlanInputs {
  Costs costs;
  Network network;
  MemoryLimit memory;
  std::optional<StepNoise> noise;   // absent: the profile knows of none
  std::string cluster, costs_from;  // for people: "" without a cluster; `measured on …`
};

/// Reads the plan's profile and cluster. `model`: what each rank runs, as planned_model gives it.
/// `graphs`: whether steps are to be replayed (simulator/costs/replays.hpp); `overrides` are
/// applied to what is read, not to the plan. Throws InputError where the plan names no profile,
/// where a file is not the one that the plan was made from, and where the cluster has too few
/// ranks.
PlanInputs plan_inputs(const Plan& plan, const Graph& model, const Slicing& slicing,
                       CudaGraphs graphs = CudaGraphs::automatic, const Overrides& overrides = {});

/// `h100.yaml: 2 nodes of 8 H100 SXM`.
std::string describe(const Cluster& cluster);

/// The plan's schedule is to be made for its costs (`adaptive`), and has not been.
bool needs_adaptive(const Plan& plan);

/// The adaptive program of such a plan, with that much memory per rank. Throws InputError where
/// nothing fits.
Program adaptive_program(const Plan& plan, const Slicing& slicing, const PlanInputs& inputs);

/// Fills in Plan::generated of such a plan, reading its files; leaves others alone.
void make_adaptive(Plan& plan, const Graph& model, const Slicing& slicing,
                   CudaGraphs graphs = CudaGraphs::automatic);

}  // namespace penstock::cli
