// The messages of each transfer of a lowered program, computed once before the first step.
//
// Every value of every edge between stages has a number, in the order (producer, consumer, graph
// order); a message's tag is 2 x (number x microbatches + microbatch) + (0 forward, 1 backward).
#pragma once

#include <map>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "graph/cuts/slice.hpp"
#include "pipeline/program/program.hpp"

namespace penstock {

/// A value of a transfer, and the tag of the message that carries it.
struct TaggedValue {
  ValueId value = 0;
  int tag = 0;
};

/// One SEND or RECV.
struct ResolvedTransfer {
  PeerChannel channel;
  std::vector<TaggedValue> messages;
  /// For a RECV: the number of this rank's first SENDs on a channel that have arrived by then,
  /// because the peer received them before it sent this.
  std::vector<std::pair<PeerChannel, int>> arrived;
  /// For a RECV: the number of this rank's first actions that its message depends on, directly or
  /// through other ranks. Posted earlier, it may wait for work that is not enqueued.
  size_t needs = 0;
};

/// The transfers of one rank.
struct RankTransfers {
  std::map<size_t, ResolvedTransfer> actions;                  // by position in the rank's program
  std::map<PeerChannel, std::vector<size_t>> receives, sends;  // positions, in order
};

/// `rank` counts within the pipeline; channels name ranks of the whole run, of which the pipeline's
/// rank r is number first_rank + r * parts. Throws std::logic_error for a transfer along no edge
/// (the program was checked).
RankTransfers resolve_transfers(const Program& lowered, const Slicing& slicing, int rank,
                                int first_rank = 0, int parts = 1);

/// The first tag of broadcasts of shared parameters (update/broadcast.hpp), two for each.
int first_broadcast_tag(const Program& lowered, const Slicing& slicing);
/// The first tag that no transfer of a step uses.
int free_tag(const Program& lowered, const Slicing& slicing);

}  // namespace penstock
