// The study that `penstock simulate` is asked for: a plan, a schedule by name, or a program in a
// file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line/commands.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/program/lowering.hpp"
#include "pipeline/program/program.hpp"
#include "simulator/costs/memory_limit.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/explain/html.hpp"
#include "simulator/network/network.hpp"
#include "simulator/noise/step_sampler.hpp"

namespace penstock::cli {

struct Study {
  std::string title;        // `1f1b`, or the file
  int64_t replicas = 1;     // of a plan; what follows is of one
  int64_t parts = 1;        // of a plan, of each rank: its tensor group
  int64_t samples = 0;      // of all replicas, of a plan for inference; else 0
  Program program;          // lowered and checked, or of a named schedule: compute alone
  std::vector<Flow> flows;  // of a compute-only program
  Costs costs;
  Network network;
  MemoryLimit memory;
  std::optional<StepNoise> noise;    // of a plan whose profile knows of it
  std::vector<PageFact> facts;       // for a page's head
  std::vector<std::string> modules;  // by stage; empty: not known
};

/// Throws InputError for flags that are missing or do not go together, each with its cure.
Study make_study(const SimulateOptions& options);

/// The study of a plan: costs from its profile, the link from its cluster or profile. Throws
/// InputError, also where a file is not the one that the plan was made from.
Study plan_study(Plan plan, const SimulateOptions& options);

/// The steps that `--samples` asks for; absent where it does not.
std::optional<SampledSteps> sampled(const Study& study, const SimulateOptions& options);

}  // namespace penstock::cli
