#include "backend/executor/transfers.hpp"

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <tuple>

namespace penstock {

namespace {

bool is_backward(Kind kind) { return kind == Kind::send_backward || kind == Kind::recv_backward; }

/// Positions in a rank's program by channel; peers count within the replica.
using Positions = std::map<PeerChannel, std::vector<size_t>>;

/// The SENDs or the RECVs of a rank, each channel's in order.
Positions by_channel(const Program& program, int rank, bool sends) {
  Positions positions;
  for (size_t i = 0; i < program.ranks[rank].size(); ++i) {
    const Action& action = program.ranks[rank][i];
    if (sends ? !is_send(action.kind) : !is_receive(action.kind)) continue;
    const int peer = program.rank_of_stage[peer_stage(action)];
    positions[{peer, is_backward(action.kind)}].push_back(i);
  }
  return positions;
}

/// The number of one rank's first actions that each action of every rank depends on.
class Needed {
 public:
  Needed(const Program& program, int rank) : program_(program), rank_(rank) {
    for (const auto& actions : program.ranks) counts_.emplace_back(actions.size());
    std::vector<size_t> next(program.ranks.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < program.rank_count(); ++r) {
        while (next[r] < program.ranks[r].size() && pass(r, next[r])) moved = ++next[r] != 0;
      }
    }
  }
  size_t before(int rank, size_t position) const { return counts_[rank][position]; }

 private:
  /// One lane: sender, receiver, gradients.
  using Lane = std::tuple<int, int, bool>;

  /// Computes one action's count, unless the message that it receives is not sent yet.
  bool pass(int r, size_t position) {
    const Action& action = program_.ranks[r][position];
    size_t count = position == 0 ? 0 : counts_[r][position - 1];
    if (is_send(action.kind) || is_receive(action.kind)) {
      const int peer = program_.rank_of_stage[peer_stage(action)];
      const bool sends = is_send(action.kind);
      auto& sent = sent_[Lane{sends ? r : peer, sends ? peer : r, is_backward(action.kind)}];
      if (!sends && sent.empty()) return false;
      if (!sends) {
        count = std::max(count, sent.front());
        sent.pop_front();
      }
      counts_[r][position] = r == rank_ ? position + 1 : count;
      if (sends) sent.push_back(counts_[r][position]);
    } else {
      counts_[r][position] = r == rank_ ? position + 1 : count;
    }
    return true;
  }

  const Program& program_;
  int rank_;
  std::vector<std::vector<size_t>> counts_;  // by rank and position
  std::map<Lane, std::deque<size_t>> sent_;  // and not received yet
};

class Resolver {
 public:
  Resolver(const Program& program, const Slicing& slicing, int rank, int first_rank, int parts)
      : program_(program), rank_(rank), first_rank_(first_rank), parts_(parts) {
    int next = 0;
    for (const StageEdge& edge : slicing.edges) {
      edges_[{edge.producer, edge.consumer}] = {next, &edge};
      next += static_cast<int>(edge.values.size());
    }
  }

  RankTransfers resolve() const {
    RankTransfers result;
    for (const auto& [channel, positions] : by_channel(program_, rank_, true)) {
      result.sends[in_run(channel)] = positions;
      for (const size_t position : positions)
        result.actions[position] = transfer(channel, position);
    }
    const Needed needed(program_, rank_);
    for (const auto& [channel, positions] : by_channel(program_, rank_, false)) {
      result.receives[in_run(channel)] = positions;
      const Positions sent = by_channel(program_, channel.peer, true);
      for (size_t k = 0; k < positions.size(); ++k) {
        ResolvedTransfer& received = result.actions[positions[k]] = transfer(channel, positions[k]);
        const size_t sending = sent.at({rank_, channel.gradients}).at(k);
        received.arrived = received_before(channel.peer, sending);
        received.needs = needed.before(channel.peer, sending);
      }
    }
    return result;
  }

 private:
  PeerChannel in_run(PeerChannel channel) const {
    return {first_rank_ + channel.peer * parts_, channel.gradients};
  }

  ResolvedTransfer transfer(PeerChannel channel, size_t position) const {
    const Action& action = program_.ranks[rank_][position];
    // Activations leave their producer; gradients come back to it.
    const bool produces = action.kind == Kind::send_forward || action.kind == Kind::recv_backward;
    const auto edge = edges_.find(produces ? std::pair{action.stage, peer_stage(action)}
                                           : std::pair{peer_stage(action), action.stage});
    if (edge == edges_.end()) throw std::logic_error(to_string(action) + " moves nothing");
    ResolvedTransfer result{in_run(channel), {}, {}, 0};
    int number = edge->second.first;
    for (const Crossing& crossing : edge->second.second->values) {
      const int slot = number++ * program_.microbatches + action.microbatch;
      if (channel.gradients && !crossing.carries_gradient) continue;
      result.messages.push_back({crossing.value, 2 * slot + (channel.gradients ? 1 : 0)});
    }
    return result;
  }

  /// The number of the peer's receives from this rank before position `before` of its program.
  std::vector<std::pair<PeerChannel, int>> received_before(int peer, size_t before) const {
    std::vector<std::pair<PeerChannel, int>> counts;
    for (const auto& [channel, positions] : by_channel(program_, peer, false)) {
      if (channel.peer != rank_) continue;
      const auto count = std::ranges::count_if(positions, [&](size_t p) { return p < before; });
      if (count > 0)
        counts.emplace_back(in_run({peer, channel.gradients}), static_cast<int>(count));
    }
    return counts;
  }

  const Program& program_;
  int rank_, first_rank_, parts_;
  std::map<std::pair<int, int>, std::pair<int, const StageEdge*>> edges_;  // number of first value
};

}  // namespace

int first_broadcast_tag(const Program& lowered, const Slicing& slicing) {
  int values = 0;
  for (const StageEdge& edge : slicing.edges) values += static_cast<int>(edge.values.size());
  return 2 * values * lowered.microbatches;
}

int free_tag(const Program& lowered, const Slicing& slicing) {
  return first_broadcast_tag(lowered, slicing) + 2 * static_cast<int>(slicing.shared.size());
}

RankTransfers resolve_transfers(const Program& lowered, const Slicing& slicing, int rank,
                                int first_rank, int parts) {
  return Resolver(lowered, slicing, rank, first_rank, parts).resolve();
}

}  // namespace penstock
