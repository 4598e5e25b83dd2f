// Matching and running the transfers of a program.
#include "pipeline/program/channels.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace penstock {

namespace {

std::string text_or_nothing(const std::vector<const Action*>& actions, size_t k) {
  return k < actions.size() ? to_string(*actions[k]) : "nothing";
}

/// Runs the ranks against each other; a channel is a count of what was sent.
class EagerRun {
 public:
  EagerRun(const Program& program, size_t channels)
      : program_(program),
        next_(program.ranks.size()),
        sent_(channels),
        received_(channels),
        waiter_(channels, -1) {}

  template <typename ChannelOf>
  void run(ChannelOf channel_of) {
    for (int rank = 0; rank < program_.rank_count(); ++rank) runnable_.push_back(rank);
    while (!runnable_.empty()) {
      const int rank = runnable_.back();
      runnable_.pop_back();
      advance(rank, channel_of);
    }
  }

  /// The action that the rank waits at, or null if it reached its end.
  const Action* waits_at(int rank) const {
    const auto& actions = program_.ranks[static_cast<size_t>(rank)];
    const size_t next = next_[static_cast<size_t>(rank)];
    return next < actions.size() ? &actions[next] : nullptr;
  }

 private:
  template <typename ChannelOf>
  void advance(int rank, ChannelOf channel_of) {
    const auto& actions = program_.ranks[static_cast<size_t>(rank)];
    for (size_t& next = next_[static_cast<size_t>(rank)]; next < actions.size(); ++next) {
      const Action& action = actions[next];
      const bool sends = is_send(action.kind);
      if (!sends && !is_receive(action.kind)) continue;
      const auto channel = static_cast<size_t>(channel_of(action));
      if (sends) {
        ++sent_[channel];
        if (waiter_[channel] >= 0) runnable_.push_back(std::exchange(waiter_[channel], -1));
      } else if (received_[channel] == sent_[channel]) {
        waiter_[channel] = rank;
        return;
      } else {
        ++received_[channel];
      }
    }
  }

  const Program& program_;
  std::vector<size_t> next_;             // by rank
  std::vector<size_t> sent_, received_;  // by channel
  std::vector<int> waiter_;              // by channel: the receiving rank, if it waits
  std::vector<int> runnable_;
};

}  // namespace

Channels::Channels(const Program& program, const FlowTable& table)
    : program_(program), table_(table) {
  std::map<std::tuple<int, int, bool>, int> numbers;  // from, to, gradients
  const auto number = [&](int from, int to, bool gradients) {
    const int next = static_cast<int>(channels_.size());
    const auto [found, added] = numbers.try_emplace({from, to, gradients}, next);
    if (added) channels_.push_back({from, to, {}, {}});
    return found->second;
  };
  for (int flow = 0; flow < table.size(); ++flow) {
    const int from = program.rank_of_stage[static_cast<size_t>(table[flow].from)];
    const int to = program.rank_of_stage[static_cast<size_t>(table[flow].to)];
    forward_.push_back(number(from, to, false));
    backward_.push_back(number(to, from, true));
  }
  for (const std::vector<Action>& actions : program.ranks) {
    for (const Action& action : actions) {
      if (!is_send(action.kind) && !is_receive(action.kind)) continue;
      Channel& channel = channels_[static_cast<size_t>(channel_of(action))];
      (is_send(action.kind) ? channel.sends : channel.receives).push_back(&action);
    }
  }
}

int Channels::channel_of(const Action& transfer) const {
  const auto flow = static_cast<size_t>(table_.served_by(transfer));
  const bool forward = transfer.kind == Kind::send_forward || transfer.kind == Kind::recv_forward;
  return (forward ? forward_ : backward_)[flow];
}

void Channels::check_matched(std::string_view place) const {
  for (const Channel& channel : channels_) {
    const size_t count = std::max(channel.sends.size(), channel.receives.size());
    for (size_t k = 0; k < count; ++k) {
      const bool both = k < channel.sends.size() && k < channel.receives.size();
      const bool match = both && channel.sends[k]->microbatch == channel.receives[k]->microbatch &&
                         channel.sends[k]->stage == peer_stage(*channel.receives[k]) &&
                         channel.receives[k]->stage == peer_stage(*channel.sends[k]);
      if (match) continue;
      throw InputError(
          place,
          fmt::format("transfer {} from rank {} to rank {}: rank {} sends {}, rank {} expects {}",
                      k, channel.from_rank, channel.to_rank, channel.from_rank,
                      text_or_nothing(channel.sends, k), channel.to_rank,
                      text_or_nothing(channel.receives, k)),
          "Order the SENDs of one rank and the RECVs of the other alike.");
    }
  }
}

void Channels::check_finishes(std::string_view place) const {
  EagerRun run(program_, channels_.size());
  run.run([this](const Action& transfer) { return channel_of(transfer); });
  std::string waiting;
  int count = 0;
  for (int rank = 0; rank < program_.rank_count(); ++rank) {
    const Action* action = run.waits_at(rank);
    if (action == nullptr) continue;
    if (++count > 8) continue;
    const int sender = channels_[static_cast<size_t>(channel_of(*action))].from_rank;
    waiting += fmt::format("\n    rank {} at {}, for rank {}", rank, to_string(*action), sender);
  }
  if (count == 0) return;
  if (count > 8) waiting += fmt::format("\n    and {} more", count - 8);
  throw InputError(place, "the program deadlocks; these wait:" + waiting,
                   "Order the actions so that each RECV's SEND can come first.");
}

}  // namespace penstock
