#include "simulator/engine/direct.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "simulator/engine/channel_times.hpp"

namespace penstock {

namespace {

/// A value that a stage hands on, or a gradient that it hands back.
struct Lane {
  int32_t receiver = 0;  // rank
  int32_t channel = -1;  // -1: within a rank
  double transfer_s = 0;
  size_t first = 0;  // its microbatch 0 in `end_s`
};

/// By stage, one way: what it needs and what it gives, as indices of lanes.
struct Ends {
  std::vector<int32_t> needs, gives;
};

template <class Channel>
class Direct {
 public:
  Direct(const Program& program, const FlowTable& flows, const Costs& costs, const Link& link)
      : program_(program), costs_(costs), link_(link), result_{.ranks = {}, .messages = 0} {
    result_.ranks.resize(program.ranks.size());
    for (auto& ends : ends_) ends.resize(program.rank_of_stage.size());
    for (int flow = 0; flow < flows.size(); ++flow) add_lane(flows[flow], false);
    for (int flow = flows.size() - 1; flow >= 0; --flow) {
      if (flows[flow].gradient) add_lane(flows[flow], true);
    }
    end_s_.assign(lanes_.size() * microbatches(), not_sent);
    open_channels();
    waits_at_.assign(program.ranks.size(), nobody);
  }

  std::optional<DirectResult> run() {
    for (int rank = program_.rank_count() - 1; rank >= 0; --rank) ready_.push_back(rank);
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      advance(rank);
    }
    for (size_t rank = 0; rank < program_.ranks.size(); ++rank) {
      if (static_cast<size_t>(result_.ranks[rank].next) < program_.ranks[rank].size()) return {};
    }
    return std::move(result_);
  }

 private:
  static constexpr size_t nobody = SIZE_MAX;

  size_t microbatches() const { return static_cast<size_t>(program_.microbatches); }

  void add_lane(const Flow& flow, bool backward) {
    const int from = backward ? flow.to : flow.from, to = backward ? flow.from : flow.to;
    const auto id = static_cast<int32_t>(lanes_.size());
    const int sender = program_.rank_of_stage[static_cast<size_t>(from)];
    Lane lane{.receiver = program_.rank_of_stage[static_cast<size_t>(to)],
              .first = lanes_.size() * microbatches()};
    if (lane.receiver != sender) {
      const auto next = static_cast<int32_t>(channel_ids_.size());
      lane.channel =
          channel_ids_.try_emplace(std::tuple(sender, lane.receiver, backward), next).first->second;
      const Kind kind = backward ? Kind::send_backward : Kind::send_forward;
      lane.transfer_s = link_.transfer_s(costs_.message_bytes({from, kind, 0, to}));
    }
    lanes_.push_back(lane);
    ends_[backward][static_cast<size_t>(from)].gives.push_back(id);
    ends_[backward][static_cast<size_t>(to)].needs.push_back(id);
  }

  void open_channels() {
    std::vector<int64_t> messages(channel_ids_.size());
    for (const Lane& lane : lanes_) {
      if (lane.channel >= 0) messages[static_cast<size_t>(lane.channel)] += program_.microbatches;
    }
    for (const int64_t count : messages)
      channels_.emplace_back(std::min<int64_t>(link_.receive_depth, count));
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

  const Ends& ends(const Action& action) const {
    return ends_[action.kind != Kind::forward][static_cast<size_t>(action.stage)];
  }

  /// Waits for what the action needs; false where that has not been sent yet.
  bool collect(const Action& action, RankTimes& state, int rank) {
    if (!exchanges(action)) return true;
    for (const int32_t id : ends(action).needs) {
      const Lane& lane = lanes_[static_cast<size_t>(id)];
      const size_t cell = lane.first + static_cast<size_t>(action.microbatch);
      double& end_s = end_s_[cell];
      if (lane.channel < 0) {
        if (end_s != not_sent) continue;
      } else {
        Channel& channel = channels_[static_cast<size_t>(lane.channel)];
        if (channel.await(end_s, state.now_s)) {
          state.now_s = channel.take(end_s, state.now_s, link_.propagation_s);
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
      const Lane& lane = lanes_[static_cast<size_t>(id)];
      const size_t cell = lane.first + static_cast<size_t>(action.microbatch);
      if (lane.channel < 0) {
        end_s_[cell] = now_s;
        continue;
      }
      channels_[static_cast<size_t>(lane.channel)].send(now_s, lane.transfer_s, end_s_[cell]);
      ++result_.messages;
      wake(lane.receiver, cell);
    }
  }

  void wake(int rank, size_t cell) {
    size_t& waits = waits_at_[static_cast<size_t>(rank)];
    if (waits != cell) return;
    waits = nobody;
    ready_.push_back(rank);
  }

  const Program& program_;
  const Costs& costs_;
  const Link& link_;
  DirectResult result_;
  std::vector<Lane> lanes_;
  std::vector<Ends> ends_[2];  // forward, backward; by stage
  std::vector<double> end_s_;  // by lane and microbatch: when it has moved or was handed on
  std::vector<Channel> channels_;
  std::vector<size_t> waits_at_;  // by rank: the cell that it waits for
  std::vector<int> ready_;
  std::map<std::tuple<int, int, bool>, int32_t> channel_ids_;
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
  if (!network.uniform() || link.sender_s_per_byte > 0 || link.receiver_s_per_byte > 0 ||
      is_lowered(compute))
    return false;
  if (link.mode == SendMode::posted)
    return link.receive_depth > 0 && awaits_one(flows, compute.stage_count());
  return link.mode == SendMode::eager;
}

std::optional<DirectResult> run_direct(const Program& compute, const FlowTable& flows,
                                       const Costs& costs, const Network& network) {
  const Link& link = network.link();
  return link.mode == SendMode::eager ? Direct<EagerChannel>(compute, flows, costs, link).run()
                                      : Direct<PostedChannel>(compute, flows, costs, link).run();
}

}  // namespace penstock
