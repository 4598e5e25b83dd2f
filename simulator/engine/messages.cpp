#include "simulator/engine/messages.hpp"

#include <algorithm>
#include <set>

namespace penstock {

namespace {

bool carries_gradient(Kind kind) {
  return kind == Kind::send_backward || kind == Kind::recv_backward;
}

}  // namespace

MessageBytes::MessageBytes(const Program& program, int rank, const Costs& costs)
    : costs_(costs), rank_of_stage_(program.rank_of_stage), stages_(program.rank_of_stage.size()) {
  const bool any = std::ranges::any_of(costs.flows, [](const FlowBytes& flow) {
    return flow.forward_bytes > 0 || flow.backward_bytes > 0 || flow.unsaved_bytes > 0;
  });
  if (costs.receive_depth == 0 || !any) return;
  list(program, rank);
  std::set<int> peers;
  for (const auto& [lane, receives] : receives_) peers.insert(lane.first);
  for (const int peer : peers) match(program, rank, peer);
  add_flows(program, rank);
  for (auto& [lane, receives] : receives_) {
    const size_t ahead = std::min(receives.bytes.size(), static_cast<size_t>(costs.receive_depth));
    while (receives.posted < ahead) held_ += receives.bytes[receives.posted++];
  }
}

MessageBytes::Lane MessageBytes::lane_of(const Action& transfer) const {
  return {rank_of_stage_[static_cast<size_t>(peer_stage(transfer))],
          carries_gradient(transfer.kind)};
}

/// What a SEND keeps alive by itself.
int64_t MessageBytes::kept_bytes(const Action& send) const {
  if (carries_gradient(send.kind)) return costs_.message_bytes(send);
  for (const FlowBytes& flow : costs_.flows)
    if (flow.from == send.stage && flow.to == peer_stage(send)) return flow.unsaved_bytes;
  return 0;
}

void MessageBytes::list(const Program& program, int rank) {
  for (const Action& action : program.ranks[static_cast<size_t>(rank)]) {
    if (is_receive(action.kind))
      receives_[lane_of(action)].bytes.push_back(costs_.message_bytes(action));
    if (is_send(action.kind)) sends_[lane_of(action)].bytes.push_back(kept_bytes(action));
  }
}

/// Counts what the peer has taken when it sends.
void MessageBytes::match(const Program& program, int rank, int peer) {
  std::pair<int, int> taken;  // activations, gradients
  for (const Action& action : program.ranks[static_cast<size_t>(peer)]) {
    if (!is_send(action.kind) && !is_receive(action.kind)) continue;
    const auto [other, gradients] = lane_of(action);
    if (other != rank) continue;
    if (is_receive(action.kind)) ++(gradients ? taken.second : taken.first);
    if (is_send(action.kind)) receives_[{peer, gradients}].arrived.push_back(taken);
  }
}

void MessageBytes::add_flows(const Program& program, int rank) {
  const bool transfers = !receives_.empty() || !sends_.empty();
  for (const FlowBytes& flow : costs_.flows) {
    const auto from = static_cast<size_t>(flow.from), to = static_cast<size_t>(flow.to);
    const bool inside = program.rank_of_stage[from] == program.rank_of_stage[to];
    if (!inside && !transfers) continue;
    if (program.rank_of_stage[from] == rank) {
      stages_[from].forward_out += flow.unsaved_bytes;
      stages_[from].backward_in += flow.backward_bytes;
    }
    if (program.rank_of_stage[to] == rank) {
      stages_[to].forward_in += inside ? flow.unsaved_bytes : flow.forward_bytes;
      stages_[to].backward_out += flow.backward_bytes;
    }
  }
}

void MessageBytes::post(const Action& receive) {
  const auto found = receives_.find(lane_of(receive));
  if (found == receives_.end()) return;
  Receives& lane = found->second;
  ++lane.received;
  if (lane.posted < lane.bytes.size()) held_ += lane.bytes[lane.posted++];
}

void MessageBytes::retire(const Action& receive) {
  const Lane lane = lane_of(receive);
  const auto found = receives_.find(lane);
  if (found == receives_.end()) return;
  const Receives& receives = found->second;
  if (receives.received > receives.arrived.size()) return;
  const auto [activations, gradients] = receives.arrived[receives.received - 1];
  retire({lane.first, false}, activations);
  retire({lane.first, true}, gradients);
}

void MessageBytes::retire(Lane lane, int count) {
  const auto found = sends_.find(lane);
  if (found == sends_.end()) return;
  Sends& sends = found->second;
  while (sends.retired < std::min(sends.bytes.size(), static_cast<size_t>(count)))
    held_ -= sends.bytes[sends.retired++];
}

void MessageBytes::begin(const Action& compute) {
  const Stage& stage = stages_[static_cast<size_t>(compute.stage)];
  if (compute.kind == Kind::forward) held_ -= stage.forward_in;
  if (compute.kind == Kind::backward || compute.kind == Kind::backward_input)
    held_ -= stage.backward_in;
}

void MessageBytes::end(const Action& compute) {
  const Stage& stage = stages_[static_cast<size_t>(compute.stage)];
  if (compute.kind == Kind::forward) held_ += stage.forward_out;
  if (compute.kind == Kind::backward || compute.kind == Kind::backward_input)
    held_ += stage.backward_out;
}

}  // namespace penstock
