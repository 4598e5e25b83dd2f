// The objective of J. Tarnawski et al., "Piper: Multidimensional planner for DNN parallelization",
// 2021, section 3, and its exact optimum.
//
// Stages are differences of downsets. A stage has a tensor parallel degree t, a data parallel
// degree d that divides the batch, and a variant for each of its nodes. It takes t d devices and,
// for a sample (microbatch),
//
//     (compute + transfers / bandwidth) / d  +  4 (d - 1)/d x parameter bytes / (batch x bandwidth)
//
// where an edge in or out of the stage is transferred twice, with what tensor parallelism adds to
// it. Each device holds, for every node, always some bytes and some for each of the y samples in
// flight, y = ceil(sum of d from this stage to the last / d). The value is the longest of the
// stages' times; devices, memory and batch (sum of all d) are not to be exceeded.
#pragma once

#include <vector>

#include "bench/planner/importers/piper.hpp"

namespace penstock::bench {

struct PiperStage {
  std::vector<int> nodes;     // ascending
  std::vector<int> variants;  // of each of them
  int data_parallel = 1, tensor_parallel = 1;
};

struct PiperPlan {
  double sample_s = 0;  // infinite where nothing fits
  std::vector<PiperStage> stages;
  int downsets = 0;
  bool exact = true;  // false: more downsets than the limit, and the graph was split as a chain
};

PiperPlan solve_piper(const PiperGraph& graph, size_t downset_limit = 250);

/// The cost of stages in order; infinite where a device holds too much.
double piper_sample_s(const PiperGraph& graph, const std::vector<PiperStage>& stages);

}  // namespace penstock::bench
