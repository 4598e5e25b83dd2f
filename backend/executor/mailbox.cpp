#include "backend/executor/mailbox.hpp"

#include <iterator>
#include <stdexcept>

namespace penstock {

Mailbox::Mailbox(const Rank& rank, int receive_depth)
    : rank_(rank),
      exchange_(rank.communicator,
                resolve_transfers(rank.model.program, rank.model.slicing, rank.index,
                                  rank.model.plan.rank_at({rank.replica, 0, rank.group.part}),
                                  rank.group.parts()),
                rank.model.graph, rank.model.plan.microbatch, receive_depth, rank.device.where()) {}

void Mailbox::begin_step() {
  inputs_.clear();
  gradients_.clear();
  outbox_.clear();
  sent_early_.clear();
  exchange_.begin_step();
}

Values Mailbox::take_inputs(int stage, int microbatch) {
  auto node = inputs_.extract({stage, microbatch});
  return node.empty() ? Values{} : std::move(node.mapped());
}

Values Mailbox::take_gradients(int stage, int microbatch) {
  Values sums;
  for (const auto& [value, parts] : gradients_[{stage, microbatch}]) {
    at::Tensor sum = parts.begin()->second;
    for (auto part = std::next(parts.begin()); part != parts.end(); ++part)
      sum = sum + part->second;
    sums[value] = sum;
  }
  gradients_.erase({stage, microbatch});
  return sums;
}

void Mailbox::put_outputs(int stage, int microbatch, const Values& sent) {
  for (const StageEdge& edge : rank_.model.slicing.edges) {
    if (edge.producer != stage) continue;
    Values values;
    for (const Crossing& crossing : edge.values) values[crossing.value] = sent.at(crossing.value);
    deliver(edge.producer, edge.consumer, microbatch, false, values);
  }
}

void Mailbox::put_gradients(int stage, int microbatch, const Values& returned) {
  for (const StageEdge& edge : rank_.model.slicing.edges) {
    if (edge.consumer != stage) continue;
    Values values;
    for (const Crossing& crossing : edge.values) {
      if (crossing.carries_gradient) values[crossing.value] = returned.at(crossing.value);
    }
    if (!values.empty()) deliver(edge.consumer, edge.producer, microbatch, true, values);
  }
}

/// Gives values to a stage of this rank, or keeps them for the SEND.
void Mailbox::deliver(int from, int to, int microbatch, bool gradients, const Values& values) {
  if (!rank_.has_stage(to)) {
    outbox_[{from, to, microbatch, gradients}] = values;
  } else if (gradients) {
    for (const auto& [value, tensor] : values) gradients_[{to, microbatch}][value][from] = tensor;
  } else {
    for (const auto& [value, tensor] : values) inputs_[{to, microbatch}][value] = tensor;
  }
}

void Mailbox::send(size_t position) {
  if (sent_early_.contains(position)) return;
  const Action& action = rank_.actions()[position];
  const bool gradients = action.kind == Kind::send_backward;
  const auto found = outbox_.find({action.stage, peer_stage(action), action.microbatch, gradients});
  if (found == outbox_.end()) {
    throw std::logic_error(to_string(action) + " comes before what it sends");
  }
  exchange_.send(position, found->second);
  outbox_.erase(found);
}

void Mailbox::send_early(size_t position) {
  const std::vector<Action>& actions = rank_.actions();
  const Action& overlap = actions[position];
  for (size_t next = position + 1; next < actions.size(); ++next) {
    const Action& transfer = actions[next];
    if (is_receive(transfer.kind)) continue;
    if (!is_send(transfer.kind)) break;
    const bool ready = transfer.kind == Kind::send_forward && transfer.stage == overlap.stage &&
                       transfer.microbatch == overlap.microbatch;
    if (!ready) continue;
    send(next);
    sent_early_.insert(next);
  }
}

void Mailbox::receive(size_t position) {
  const Action& action = rank_.actions()[position];
  const Values values = exchange_.receive(position);
  // As if the peer's stage delivered them here.
  deliver(peer_stage(action), action.stage, action.microbatch, action.kind == Kind::recv_backward,
          values);
}

}  // namespace penstock
