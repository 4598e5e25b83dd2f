// The critical path of a step: the chain of compute, transfers and all-reduces from time 0 to the
// makespan in which each begins when the one before it ends. Nothing else has to become faster for
// the step to become shorter, and nothing else can.
//
// It is found by walking back from the last end, by recorded times only. Where several things ended
// at the moment that something began, the first of these is followed: the same rank's previous
// action, the message before it on the channel, the receiver's post.
#pragma once

#include <string_view>
#include <vector>

#include "pipeline/program/program.hpp"
#include "simulator/engine/engine.hpp"
#include "simulator/network/network.hpp"

namespace penstock {

struct PathStep {
  enum class Part : uint8_t {
    compute,   // F, B, I, W, OVERLAP_F_B, OPT
    reduce,    // REDUCE_GRAD
    transfer,  // from the first byte to the moment that who waits for it goes on
    launch,    // a host issues what its device waits for
    wait       // nothing recorded explains these seconds
  };
  /// The cause that it had to wait for: the end of the step before it.
  enum class Cause : uint8_t {
    start,      // nothing: it begins at 0
    previous,   // its rank's previous action; of a transfer the sender's
    message,    // the message that it needs; of a rendezvous the one that its rank sent
    channel,    // the message before it on the channel
    receive,    // the receive that its receiver had not posted
    agreement,  // the last rank to come to OPT
    unknown
  };
  Part part = Part::compute;
  Cause cause = Cause::start;
  int rank = 0;       // of a transfer the sender's
  int receiver = -1;  // of a transfer, else -1
  Action action;      // of a transfer the SEND; of a wait or a launch what waits for it
  double start_s = 0, end_s = 0;
};

std::string_view name(PathStep::Part part);
/// `the message before it on the channel`.
std::string_view describe(PathStep::Cause cause);

struct CriticalPath {
  std::vector<PathStep> steps;  // ascending; each starts where the one before it ends
  double compute_s = 0, reduce_s = 0, transfer_s = 0, launch_s = 0,
         wait_s = 0;           // add up to the makespan
  std::vector<double> rank_s;  // per rank its compute, launches and all-reduces on the path
};

/// `times` are recorded and finished (std::invalid_argument otherwise). Linear in the number of
/// tasks.
CriticalPath critical_path(const Program& program, const CompiledProgram& compiled,
                           const EngineResult& times, const Network& network);

}  // namespace penstock
