// The engine: when every task of a compiled program starts and ends.
//
// The order of a rank's tasks and of a channel's messages is fixed by the program, so every time is
// the largest of a few earlier ones plus a duration: the least solution of a system of max-plus
// equations. It does not depend on the order in which ranks are advanced, so no two events ever
// compete for equal times and no event queue is needed: each rank runs until it has to wait, and
// whatever it waits for makes it ready again. Linear in the number of tasks.
//
// Channels that share a link and ranks that share a core are the exception: how long their messages
// and computes take depends on what else is under way. These are handed to SharedWork, which ends
// them in order of time, the next one only when no rank can go on: whatever an end sets off then
// comes later than that end.
//
//   message k of a channel:  start_k = max(sent_k, posted_k, end_{k-1}),  end_k = start_k +
//   transfer posted_k, when its receiver is ready for it:
//     eager       0
//     posted      receive_depth receives are posted at the start and one more whenever a message
//     has
//                 been taken; or when the receiver waits for it, if that is earlier;
//                 with receive_depth 0 when RECV k is reached
//     rendezvous  when RECV k is reached; and the sender goes on at end_k
//   A compute starts when its rank has taken all its messages, one after the other:
//     taken_k = max(the rank waits for it, end_k + propagation)
//   and while n ranks compute on a core each goes on at 1/n; one that waits or reduces takes none.
//   A host that issues to a device such as a GPU runs ahead of it and waits for nothing up to OPT:
//     issued = issued before + host,  end = max(start + duration, issued)
//   since what it issues first may run while it issues the rest. How many launches a device can
//   have waiting (some 1000 on a stream) is left out, and so is what transfers take of the host.
#pragma once

#include <vector>

#include "simulator/engine/compile.hpp"

namespace penstock {

/// Times of a rank, and where it stands if the program cannot finish.
struct RankTimes {
  double now_s = 0;
  double busy_s = 0;               // compute, as long as it takes on cores that are shared
  double first_s = 0, last_s = 0;  // start of its first compute, end of its last
  double reduced_s = 0;            // end of its last all-reduce beside compute
  double issued_s = 0;             // its host has issued all computes before `next`
  int32_t next = 0;                // the task that it waits at; the end of its tasks when done
  int32_t waits_for = -1;          // a message, `agreement`, or `cores`
  bool computed = false;

  static constexpr int32_t agreement = -2, cores = -3;

  /// Goes on to the end of a compute and returns its start.
  double compute(double duration_s, double host_s);
  /// The same of one on shared cores, which are done with it then.
  double compute_until(double end_s, double host_s);

 private:
  double go_on(double end_s);
};

/// Times from the step's start. `start_s` and `end_s` per task, empty unless recorded. A SEND's are
/// those of the bytes on the channel; a RECV's are those of the wait for its message.
struct EngineResult {
  std::vector<RankTimes> ranks;
  std::vector<double> start_s, end_s;
  bool finished = false;
};

EngineResult run_engine(const CompiledProgram& program, const Network& network, bool record_times);

}  // namespace penstock
