#include "backend/executor/exchange.hpp"

#include "backend/operators/dtype.hpp"

namespace penstock {

Exchange::Exchange(Communicator& communicator, RankTransfers transfers, const Graph& graph,
                   int64_t batch, int depth, at::Device where)
    : communicator_(&communicator),
      transfers_(std::move(transfers)),
      graph_(graph),
      batch_(batch),
      depth_(depth),
      where_(where) {}

Exchange::~Exchange() = default;

void Exchange::begin_step() {
  enqueued_ = 0;
  next_receive_.clear();
  received_.clear();
  receives_.clear();
  sends_.clear();
  retired_.clear();
  for (const auto& [channel, positions] : transfers_.receives) post_due(channel);
}

void Exchange::enqueued(size_t position) {
  enqueued_ = position + 1;
  if (!communicator_->receives_spin()) return;  // posting blocks nothing
  for (const auto& [channel, positions] : transfers_.receives) post_due(channel);
}

/// Posts as many as may be ahead, as far as their messages depend on nothing still to come.
void Exchange::post_due(PeerChannel channel) {
  const std::vector<size_t>& positions = transfers_.receives.at(channel);
  size_t& next = next_receive_[channel];
  while (next < positions.size() && next < received_[channel] + static_cast<size_t>(depth_)) {
    const size_t needs = transfers_.actions.at(positions[next]).needs;
    if (communicator_->receives_spin() && needs > enqueued_) return;
    post(channel, positions[next++]);
  }
}

void Exchange::post(PeerChannel channel, size_t position) {
  Posted& posted = receives_[position];
  for (const TaggedValue& message : transfers_.actions.at(position).messages) {
    const Value& value = graph_.values[message.value];
    std::vector<int64_t> shape;
    for (const Expression& size : value.shape) shape.push_back(size.at(batch_));
    at::Tensor tensor =
        at::empty(shape, at::TensorOptions(scalar_type(value.dtype)).device(where_));
    posted.transfers.push_back(communicator_->receive(channel, tensor, message.tag));
    posted.values[message.value] = std::move(tensor);
  }
}

Values Exchange::receive(size_t position) {
  const ResolvedTransfer& action = transfers_.actions.at(position);
  Posted posted = std::move(receives_.at(position));
  receives_.erase(position);
  for (const auto& transfer : posted.transfers) transfer->wait();
  ++received_[action.channel];
  post_due(action.channel);
  for (const auto& [channel, count] : action.arrived) retire(channel, count);
  return std::move(posted.values);
}

void Exchange::send(size_t position, const Values& values) {
  const ResolvedTransfer& action = transfers_.actions.at(position);
  auto& started = sends_[action.channel].emplace_back();
  for (const TaggedValue& message : action.messages) {
    started.push_back(
        communicator_->send(action.channel, values.at(message.value).contiguous(), message.tag));
  }
}

void Exchange::retire(PeerChannel channel, size_t count) {
  auto& sends = sends_[channel];
  for (size_t& done = retired_[channel]; done < count; ++done) {
    for (const auto& transfer : sends.at(done)) transfer->wait();
    sends[done].clear();
  }
}

void Exchange::finish_step() {
  for (const auto& [channel, sends] : sends_) retire(channel, sends.size());
}

int64_t Exchange::bytes(size_t position) const {
  int64_t bytes = 0;
  for (const TaggedValue& message : transfers_.actions.at(position).messages) {
    bytes += graph_.values[message.value].bytes(batch_);
  }
  return bytes;
}

}  // namespace penstock
