#include "simulator/engine/direct.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "simulator/engine/channel_times.hpp"
#include "simulator/engine/lanes.hpp"

namespace penstock {

namespace {

template <class Channel>
class Direct {
 public:
  Direct(const Program& program, const Costs& costs, const Network& network, const Lanes& lanes)
      : program_(program),
        costs_(costs),
        lanes_(lanes),
        work_(network.capacity()),
        end_s_(lanes.messages(), not_sent),
        waits_at_(program.ranks.size(), nobody) {
    result_.ranks.resize(program.ranks.size());
    open_channels(network.link());
  }

  std::optional<DirectResult> run() {
    for (int rank = program_.rank_count() - 1; rank >= 0; --rank) ready_.push_back(rank);
    do {
      while (!ready_.empty()) {
        const int rank = ready_.back();
        ready_.pop_back();
        advance(rank);
      }
    } while (end_message());
    for (size_t rank = 0; rank < program_.ranks.size(); ++rank) {
      if (static_cast<size_t>(result_.ranks[rank].next) < program_.ranks[rank].size()) return {};
    }
    return std::move(result_);
  }

 private:
  static constexpr size_t nobody = SIZE_MAX;

  /// Eager messages that share links are posted ones with all receives posted at the start.
  void open_channels(const Link& link) {
    channels_.reserve(lanes_.channels().size());
    for (const Lanes::Channel& channel : lanes_.channels()) {
      const int64_t ahead =
          link.mode == SendMode::eager ? channel.messages : int64_t{link.receive_depth};
      const auto id = static_cast<int32_t>(channels_.size());
      channels_.emplace_back(typename Channel::Link(id, channel.route, work_),
                             std::min(ahead, channel.messages));
    }
  }

  void advance(int rank) {
    RankTimes& state = result_.ranks[static_cast<size_t>(rank)];
    const std::vector<Action>& actions = program_.ranks[static_cast<size_t>(rank)];
    for (; static_cast<size_t>(state.next) < actions.size(); ++state.next) {
      const Action& action = actions[static_cast<size_t>(state.next)];
      if (action.kind == Kind::overlap) {
        const Action forward = forward_part(action), backward = backward_part(action);
        if (!collect(forward, state, rank) || !collect(backward, state, rank)) return;
        compute(state, action);
        hand_on(forward, state.now_s);
        hand_on(backward, state.now_s);
      } else {
        if (!collect(action, state, rank)) return;
        compute(state, action);
        hand_on(action, state.now_s);
      }
    }
  }

  void compute(RankTimes& state, const Action& action) const {
    state.compute(costs_.duration_s(action), costs_.host_s(action));
  }

  static bool exchanges(const Action& action) { return action.kind != Kind::backward_weight; }

  const Lanes::Ends& ends(const Action& action) const {
    return lanes_.ends(action.stage, action.kind != Kind::forward);
  }

  /// Waits for what the action needs; false where that has not moved yet.
  bool collect(const Action& action, RankTimes& state, int rank) {
    if (!exchanges(action)) return true;
    for (const int32_t id : ends(action).needs) {
      const Lane& lane = lanes_[id];
      const size_t cell = lane.first + static_cast<size_t>(action.microbatch);
      double& end_s = end_s_[cell];
      if (lane.channel < 0) {
        if (end_s != not_sent) continue;
      } else {
        Channel& channel = channels_[static_cast<size_t>(lane.channel)];
        if (channel.await(end_s, state.now_s)) {
          state.now_s = channel.take(end_s, state.now_s, lane.propagation_s);
          continue;
        }
      }
      waits_at_[static_cast<size_t>(rank)] = cell;
      return false;
    }
    return true;
  }

  void hand_on(const Action& action, double now_s) {
    if (!exchanges(action)) return;
    for (const int32_t id : ends(action).gives) {
      const Lane& lane = lanes_[id];
      const size_t cell = lane.first + static_cast<size_t>(action.microbatch);
      if (lane.channel < 0) {
        end_s_[cell] = now_s;
        continue;
      }
      channels_[static_cast<size_t>(lane.channel)].send(now_s, lane.payload, end_s_[cell]);
      ++result_.messages;
      if (end_s_[cell] >= 0) wake(lane.receiver, cell);
    }
  }

  /// Ends the next message on shared links; false where there is none.
  bool end_message() {
    const auto done = work_.next();
    if (!done) return false;
    if constexpr (std::is_same_v<typename Channel::Link, SharedLink>) {
      const auto id = static_cast<size_t>(done->id);
      const double* const end_s = channels_[id].link().end(done->end_s);
      wake(lanes_.channels()[id].receiver, static_cast<size_t>(end_s - end_s_.data()));
    }
    return true;
  }

  void wake(int rank, size_t cell) {
    size_t& waits = waits_at_[static_cast<size_t>(rank)];
    if (waits != cell) return;
    waits = nobody;
    ready_.push_back(rank);
  }

  const Program& program_;
  const Costs& costs_;
  const Lanes& lanes_;
  DirectResult result_;
  SharedWork work_;            // messages that share links
  std::vector<double> end_s_;  // by lane and microbatch: when it has moved or was handed on
  std::vector<Channel> channels_;
  std::vector<size_t> waits_at_;  // by rank: the cell that it waits for
  std::vector<int> ready_;
};

/// Does no stage wait for two messages, one after the other?
bool awaits_one(const FlowTable& flows, int stages) {
  const auto transfers = [&](const std::vector<int>& some, bool backward) {
    return std::ranges::count_if(
        some, [&](int flow) { return !flows.local(flow) && (!backward || flows[flow].gradient); });
  };
  for (int stage = 0; stage < stages; ++stage) {
    if (transfers(flows.into(stage), false) > 1 || transfers(flows.out_of(stage), true) > 1)
      return false;
  }
  return true;
}

}  // namespace

bool runs_directly(const Program& compute, const FlowTable& flows, const Network& network) {
  const Link& link = network.link();
  const bool costs_compute = link.sender_s_per_byte > 0 || link.receiver_s_per_byte > 0;
  if (costs_compute || posts_when_reached(link) || is_lowered(compute)) return false;
  const bool any_order = link.mode == SendMode::eager && network.capacity().empty();
  return any_order || awaits_one(flows, compute.stage_count());
}

std::optional<DirectResult> run_direct(const Program& compute, const FlowTable& flows,
                                       const Costs& costs, const Network& network) {
  const Lanes lanes(compute, flows, costs, network);
  const auto run = [&]<class Channel>(std::type_identity<Channel>) {
    return Direct<Channel>(compute, costs, network, lanes).run();
  };
  if (lanes.share_links()) return run(std::type_identity<PostedChannel<SharedLink>>());
  if (network.link().mode == SendMode::posted)
    return run(std::type_identity<PostedChannel<OwnLink>>());
  return run(std::type_identity<EagerChannel>());
}

}  // namespace penstock
