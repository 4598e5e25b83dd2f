#include "backend/transfers.hpp"

#include <stdexcept>

namespace penstock {

namespace {

bool is_backward(Kind kind) { return kind == Kind::send_backward || kind == Kind::recv_backward; }

/// The number of the first value of each edge.
std::map<std::pair<int, int>, std::pair<int, const StageEdge*>> number_edges(const Slicing& slicing) {
  std::map<std::pair<int, int>, std::pair<int, const StageEdge*>> numbers;
  int next = 0;
  for (const StageEdge& edge : slicing.edges) {
    numbers[{edge.producer, edge.consumer}] = {next, &edge};
    next += static_cast<int>(edge.values.size());
  }
  return numbers;
}

/// The SENDs or RECVs of a rank by channel (peers as ranks of the replica), as positions in order.
std::map<Channel, std::vector<size_t>> by_channel(const Program& program, int rank, bool sends) {
  std::map<Channel, std::vector<size_t>> positions;
  for (size_t i = 0; i < program.ranks[rank].size(); ++i) {
    const Action& action = program.ranks[rank][i];
    if (sends ? !is_send(action.kind) : !is_receive(action.kind)) continue;
    const int peer = program.rank_of_stage[peer_stage(action)];
    positions[{peer, is_backward(action.kind)}].push_back(i);
  }
  return positions;
}

/// How many of the peer's receives from `rank` come before position `before` of its program.
std::vector<std::pair<Channel, int>> received_before(const Program& program, int rank, int peer,
                                                     size_t before) {
  std::vector<std::pair<Channel, int>> counts;
  for (const auto& [channel, positions] : by_channel(program, peer, false)) {
    if (channel.peer != rank) continue;
    int count = 0;
    for (const size_t position : positions) count += position < before ? 1 : 0;
    if (count > 0) counts.push_back({{peer, channel.gradients}, count});
  }
  return counts;
}

}  // namespace

int free_tag(const Program& lowered, const Slicing& slicing) {
  int values = 0;
  for (const StageEdge& edge : slicing.edges) values += static_cast<int>(edge.values.size());
  return 2 * values * lowered.microbatches;
}

RankTransfers resolve_transfers(const Program& lowered, const Slicing& slicing, int rank,
                                int first_rank) {
  const auto numbers = number_edges(slicing);
  const auto shift = [&](Channel channel) { return Channel{channel.peer + first_rank, channel.gradients}; };
  RankTransfers result;
  for (const bool sends : {true, false}) {
    for (const auto& [channel, positions] : by_channel(lowered, rank, sends)) {
      (sends ? result.sends : result.receives)[shift(channel)] = positions;
      const auto matching = sends ? std::map<Channel, std::vector<size_t>>{}
                                  : by_channel(lowered, channel.peer, true);
      for (size_t k = 0; k < positions.size(); ++k) {
        const Action& action = lowered.ranks[rank][positions[k]];
        // Activations leave their producer; gradients come back to it.
        const bool from_here = action.kind == Kind::send_forward || action.kind == Kind::recv_backward;
        const auto key = from_here ? std::pair{action.stage, peer_stage(action)}
                                   : std::pair{peer_stage(action), action.stage};
        const auto edge = numbers.find(key);
        if (edge == numbers.end()) throw std::logic_error(to_string(action) + " moves nothing");
        ResolvedTransfer& transfer = result.actions[positions[k]];
        transfer.channel = shift(channel);
        int number = edge->second.first;
        for (const Crossing& crossing : edge->second.second->values) {
          const int tag = 2 * (number++ * lowered.microbatches + action.microbatch) + channel.gradients;
          if (channel.gradients && !crossing.carries_gradient) continue;
          transfer.messages.push_back({crossing.value, tag});
        }
        if (sends) continue;
        const size_t sent_at = matching.at({rank, channel.gradients}).at(k);
        for (const auto& [back, count] : received_before(lowered, rank, channel.peer, sent_at)) {
          transfer.arrived.push_back({shift(back), count});
        }
      }
    }
  }
  return result;
}

}  // namespace penstock
