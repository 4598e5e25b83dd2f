// The choice between running a rank's compute and replaying it from captured graphs.
#pragma once

#include <cstdint>
#include <string>

#include "backend/executor/dry_step.hpp"
#include "backend/executor/rank.hpp"
#include "launch/execute_task.hpp"

namespace penstock {

/// The choice for a rank, and its reasons.
struct Replaying {
  bool on = false;
  std::string why_not;    // where it is off though it was asked for
  double run_s = 0;       // a step's compute without transfers as it runs …
  double replayed_s = 0;  // … and replayed; 0: not measured
};

/// Captures a dry step as one graph for each action, which only a GPU can (CUDA graphs), so that
/// later steps replay them. `automatic`: drops them unless a step of them takes less time and they
/// leave the optimizer `state_bytes`, what its first step asks for.
Replaying choose_replay(Rank& rank, DrySteps& steps, int64_t step, CudaGraphs graphs,
                        int64_t state_bytes);

/// Drops the graphs of a rank and gives their memory back; later steps run.
void forget_graphs(Rank& rank);

}  // namespace penstock
