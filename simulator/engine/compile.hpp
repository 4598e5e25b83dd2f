// A program made ready to run: every action becomes one small task with its duration, every pair of
// SEND and RECV one message of a channel. All lookups happen here, none while the engine runs.
//
// A RECV posts; what waits for its message is the F (RECV_F), or the B or I (RECV_B), of its stage
// and microbatch, as in torch.distributed.pipelining: programs list a RECV where its SEND happens,
// which may be long before it is needed.
//
// Compute that a transfer costs its ranks (Link::sender_s_per_byte, receiver_s_per_byte) is added
// to the next action of that rank that takes time: of the sender after its SEND, of the receiver
// after its RECV. That is exact where the bytes move beside the next action; behind a rank's last
// action, or beside its last sums, it is left out.
//
// Compute that a sum of gradients costs its rank is added likewise: as much of it as fits into what
// is left of the backward that makes them final is added to that backward, the rest to the next
// action before OPT.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/program/program.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/network/network.hpp"

namespace penstock {

struct Task {
  enum class Op : uint8_t {
    compute,  // F, B, I, W, OVERLAP_F_B, OPT
    agree,    // the first OPT of a rank: waits until all ranks are there, then computes
    reduce,   // REDUCE_GRAD: begins sums; the rank goes on, its OPT or end waits
    send,
    post,    // RECV: the rank goes on, what needs the message waits for it
    receive  // RECV of a message that nothing after it needs: waits itself
  };
  double duration_s = 0;
  double host_s = 0;     // of a compute: what its host takes to issue it
  int32_t message = -1;  // of a transfer; of a compute the first that it waits for; of a reduce
                         // its index in `reductions`
  Op op = Op::compute;
};

/// One transfer of a channel.
struct Message {
  double transfer_s = 0;
  int64_t bytes = 0;
  int32_t channel = 0;
  int32_t send_task = -1, receive_task = -1;  // -1: the program has none
  int32_t next_awaited = -1;                  // the same task also waits for that one
};

/// Sending rank, receiving rank, direction. Its messages are [first, first + count), in order. Its
/// route shares only what can slow it (Network::routes).
struct Channel {
  int sender = 0, receiver = 0;
  bool backward = false;
  int32_t first = 0, count = 0;
  Route route;
};

/// The sums of a REDUCE_GRAD, one after the other and behind those of its rank before it; each may
/// begin `left_s` before the rank comes to the action.
struct Reduction {
  struct Sum {
    double sum_s = 0, left_s = 0;
  };
  std::vector<Sum> sums;
};

struct CompiledProgram {
  std::vector<Task> tasks;          // of rank 0, then of rank 1, …
  std::vector<int32_t> rank_begin;  // first task of each rank, and the end
  std::vector<Message> messages;
  std::vector<Channel> channels;
  std::vector<Reduction> reductions;    // of the tasks `reduce`
  int agreeing_ranks = 0;               // ranks with an OPT
  std::vector<double> publish_s;        // of each rank: the part of its OPTs that is no compute
  std::vector<std::vector<int>> cores;  // by rank: those that others, too, compute on; empty: none
  int core_count = 0;

  /// Computes of this rank share cores with others.
  bool shares_cores(int rank) const {
    return !cores.empty() && !cores[static_cast<size_t>(rank)].empty();
  }

  int rank_count() const { return static_cast<int>(rank_begin.size()) - 1; }
  int rank_of_task(int32_t task) const;
};

/// Throws InputError for a transfer that names a stage the program does not have or one on the same
/// rank, and where the k-th SEND of a channel is not the one that its k-th RECV expects.
CompiledProgram compile(const Program& program, const Costs& costs, const Network& network);

/// The action behind a task.
const Action& action_of_task(const Program& program, const CompiledProgram& compiled, int32_t task);

}  // namespace penstock
