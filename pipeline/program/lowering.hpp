// From a compute-only program to one with every transfer, along the stages' real data flow.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pipeline/program/program.hpp"

namespace penstock {

/// Stage `from` produces values that stage `to` uses. Gradients flow back only where `gradient`.
struct Flow {
  int from, to;
  bool gradient = true;
};

struct LoweringOptions {
  std::vector<int> reduce_stages;  // get a REDUCE_GRAD after their last B or W
  bool optimizer = false;          // every rank ends with OPT for each of its stages
  std::string place = "program";   // named in errors: the plan or CSV file it came from
};

/// Adds SEND and RECV such that two ranks see their mutual transfers in the same order; stages on
/// the same rank exchange nothing. Throws InputError if check_compute (check.hpp) refuses the
/// program or if it deadlocks (an action's inputs never come), naming the first action of each
/// waiting rank.
Program lower(const Program& compute, const std::vector<Flow>& flows,
              const LoweringOptions& options = {});

/// Adds the REDUCE_GRADs and OPTs that are asked for and that a lowered program does not have yet.
Program add_updates(Program program, const LoweringOptions& options);

/// A lowered program lists a RECV where its SEND happens, long before its message may be needed.
/// This moves each to just before the first action that needs its message, or a later one of its
/// channel, for a runner whose RECVs wait. Channels keep their order and no RECV comes earlier, so
/// where SENDs wait for nothing the program still finishes.
Program delay_receives(Program lowered);

/// Flows of a chain of stages, 0 -> 1 -> … .
std::vector<Flow> chain_flows(int stages);

/// Is any transfer, REDUCE_GRAD or OPT in it?
bool is_lowered(const Program& program);

}  // namespace penstock
