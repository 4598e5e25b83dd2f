#include "simulator/engine/engine.hpp"

#include <algorithm>

#include "simulator/network/shared_work.hpp"

namespace penstock {

namespace {

constexpr double unknown = -1;  // a time that has not been found yet; all others are >= 0

/// Cores behind what the network shares: each does one second of compute in each second.
std::vector<double> with_cores(std::vector<double> capacity, int cores) {
  capacity.resize(capacity.size() + static_cast<size_t>(cores), 1);
  return capacity;
}

class Engine {
 public:
  Engine(const CompiledProgram& program, const Network& network, bool record)
      : program_(program),
        link_(network.link()),
        capacity_(with_cores(network.capacity(), program.core_count)),
        shared_(capacity_),
        record_(record),
        posts_when_reached_(posts_when_reached(link_)) {
    result_.ranks.resize(static_cast<size_t>(program.rank_count()));
    messages_.resize(program.messages.size());
    channels_.resize(program.channels.size());
    add_cores(static_cast<int>(network.capacity().size()));
    if (record) {
      result_.start_s.assign(program.tasks.size(), 0);
      result_.end_s.assign(program.tasks.size(), 0);
    }
    post_first_receives();
  }

  EngineResult run() {
    for (int rank = program_.rank_count() - 1; rank >= 0; --rank) {
      RankTimes& state = result_.ranks[static_cast<size_t>(rank)];
      state.next = program_.rank_begin[static_cast<size_t>(rank)];
      state.busy_s = -program_.publish_s[static_cast<size_t>(rank)];
      ready_.push_back(rank);
    }
    do {
      while (!ready_.empty()) {
        const int rank = ready_.back();
        ready_.pop_back();
        advance(rank);
      }
    } while (end_shared_work());
    result_.finished = true;
    for (size_t rank = 0; rank < result_.ranks.size(); ++rank) {
      result_.finished &= result_.ranks[rank].next == program_.rank_begin[rank + 1];
    }
    return std::move(result_);
  }

 private:
  struct MessageTimes {
    double sent_s = unknown, posted_s = unknown, end_s = unknown;
    bool taken = false;
  };
  struct ChannelState {
    int32_t moved = 0, posted = 0, taken = 0;  // messages: have a time; may move; were waited for
    double free_s = 0, start_s = 0;            // start of the message that moves on shared links
    bool busy = false;                         // with it
  };

  void add_cores(int first) {
    for (std::vector<int> cores : program_.cores) {
      for (int& core : cores) core += first;
      cores_.push_back(std::move(cores));
    }
  }

  /// How many receives of a channel are posted before any message has come.
  int32_t posted_first(const Channel& channel) const {
    switch (link_.mode) {
      case SendMode::eager: return channel.count;
      case SendMode::posted: return std::min(channel.count, link_.receive_depth);
      case SendMode::rendezvous: return 0;
    }
    return 0;
  }

  void post_first_receives() {
    for (size_t c = 0; c < channels_.size(); ++c) {
      post_upto(static_cast<int32_t>(c), posted_first(program_.channels[c]), 0);
    }
  }

  /// Posts the receives of the channel's first `count` messages that are not posted yet.
  void post_upto(int32_t channel_id, int32_t count, double now_s) {
    const Channel& channel = program_.channels[static_cast<size_t>(channel_id)];
    ChannelState& state = channels_[static_cast<size_t>(channel_id)];
    for (; state.posted < std::min(count, channel.count); ++state.posted) {
      const auto id = static_cast<size_t>(channel.first) + static_cast<size_t>(state.posted);
      messages_[id].posted_s = now_s;
    }
    move(channel_id);
  }

  void advance(int rank) {
    RankTimes& state = result_.ranks[static_cast<size_t>(rank)];
    const int32_t end = program_.rank_begin[static_cast<size_t>(rank) + 1];
    while (state.next < end) {
      const Task& task = program_.tasks[static_cast<size_t>(state.next)];
      switch (task.op) {
        case Task::Op::compute:
          if (!collect(state, task) || !take(state, task, rank)) return;
          break;
        case Task::Op::reduce: reduce(state, task); break;
        case Task::Op::agree:
          if (!agree(state, task, rank)) return;
          break;
        case Task::Op::send:
          if (!send(state, task.message)) return;
          break;
        case Task::Op::post:
          if (posts_when_reached_) post_message(task.message, state.now_s);
          break;
        case Task::Op::receive:
          if (posts_when_reached_) post_message(task.message, state.now_s);
          if (!collect(state, task)) return;
          break;
      }
      ++state.next;
    }
    state.now_s = std::max(state.now_s, state.reduced_s);
  }

  void reduce(RankTimes& state, const Task& task) {
    const auto& sums = program_.reductions[static_cast<size_t>(task.message)].sums;
    if (sums.empty()) return record(state.next, state.now_s, state.now_s);
    double start_s = unknown;
    for (const Reduction::Sum& sum : sums) {
      state.reduced_s = std::max(state.reduced_s, state.now_s - sum.left_s);
      if (start_s == unknown) start_s = state.reduced_s;
      state.reduced_s += sum.sum_s;
    }
    record(state.next, start_s, state.reduced_s);
  }

  /// Runs a compute; false where it shares cores, and ends when its turn comes.
  bool take(RankTimes& state, const Task& task, int rank) {
    if (program_.shares_cores(rank)) {
      state.waits_for = RankTimes::cores;
      shared_.add({compute_of(rank), state.now_s, 0, task.duration_s, 1,
                   &cores_[static_cast<size_t>(rank)]});
      return false;
    }
    const double start_s = state.compute(task.duration_s, task.host_s);
    record(state.next, start_s, state.now_s);
    return true;
  }

  /// The number of a rank's compute among shared work, behind those of the messages.
  int32_t compute_of(int rank) const { return static_cast<int32_t>(messages_.size()) + rank; }

  void end_compute(int rank, double end_s) {
    RankTimes& state = result_.ranks[static_cast<size_t>(rank)];
    const Task& task = program_.tasks[static_cast<size_t>(state.next)];
    const double start_s = state.compute_until(end_s, task.host_s);
    record(state.next, start_s, state.now_s);
    state.waits_for = -1;
    ++state.next;
    ready_.push_back(rank);
  }

  bool agree(RankTimes& state, const Task& task, int rank) {
    if (state.waits_for != RankTimes::agreement) {
      state.now_s = std::max(state.now_s, state.reduced_s);
      state.waits_for = RankTimes::agreement;
      agreed_s_ = std::max(agreed_s_, state.now_s);
      waiting_to_agree_.push_back(rank);
      if (static_cast<int>(waiting_to_agree_.size()) == program_.agreeing_ranks) {
        ready_.insert(ready_.end(), waiting_to_agree_.begin(), waiting_to_agree_.end());
      }
      return false;
    }
    state.now_s = state.issued_s = agreed_s_;  // the host has waited, too
    return take(state, task, rank);
  }

  bool send(RankTimes& state, int32_t id) {
    MessageTimes& message = messages_[static_cast<size_t>(id)];
    if (message.sent_s == unknown) {
      message.sent_s = state.now_s;
      move(program_.messages[static_cast<size_t>(id)].channel);
    }
    if (link_.mode != SendMode::rendezvous) return true;
    if (message.end_s == unknown) return wait(state, id);
    state.now_s = message.end_s;
    return true;
  }

  /// Takes the messages that the task waits for; false if one has not come. Those that have been
  /// taken already are taken again without effect.
  bool collect(RankTimes& state, const Task& task) {
    for (int32_t id = task.message; id >= 0;
         id = program_.messages[static_cast<size_t>(id)].next_awaited) {
      MessageTimes& message = messages_[static_cast<size_t>(id)];
      if (message.taken) continue;
      if (message.posted_s == unknown) post_message(id, state.now_s);
      if (message.end_s == unknown) return wait(state, id);
      message.taken = true;
      const Message& what = program_.messages[static_cast<size_t>(id)];
      const double taken_s = std::max(state.now_s, message.end_s + propagation_s(what));
      record(what.receive_task, state.now_s, taken_s);
      state.now_s = taken_s;
      const int32_t taken = ++channels_[static_cast<size_t>(what.channel)].taken;
      if (!posts_when_reached_) post_upto(what.channel, taken + link_.receive_depth, taken_s);
    }
    return true;
  }

  /// Posts the receive of this message, and of those before it on its channel.
  void post_message(int32_t id, double now_s) {
    const int32_t channel = program_.messages[static_cast<size_t>(id)].channel;
    post_upto(channel, id - program_.channels[static_cast<size_t>(channel)].first + 1, now_s);
  }

  double propagation_s(const Message& message) const {
    return program_.channels[static_cast<size_t>(message.channel)].route.propagation_s;
  }

  bool wait(RankTimes& state, int32_t id) {
    state.waits_for = id;
    return false;
  }

  /// Gives a time to every message of the channel, in order, whose two ends are known.
  void move(int32_t channel_id) {
    const Channel& channel = program_.channels[static_cast<size_t>(channel_id)];
    ChannelState& state = channels_[static_cast<size_t>(channel_id)];
    while (state.moved < channel.count && !state.busy) {
      const int32_t id = channel.first + state.moved;
      const MessageTimes& message = messages_[static_cast<size_t>(id)];
      if (message.sent_s == unknown || message.posted_s == unknown) return;
      const Message& what = program_.messages[static_cast<size_t>(id)];
      state.start_s = std::max({message.sent_s, message.posted_s, state.free_s});
      if (channel.route.shared.empty()) {
        arrive(channel, state, state.start_s + what.transfer_s);
      } else {
        state.busy = true;
        shared_.add({id, state.start_s, channel.route.latency_s, static_cast<double>(what.bytes),
                     channel.route.bandwidth, &channel.route.shared});
      }
    }
  }

  /// The message that the channel moves has moved.
  void arrive(const Channel& channel, ChannelState& state, double end_s) {
    const int32_t id = channel.first + state.moved++;
    messages_[static_cast<size_t>(id)].end_s = state.free_s = end_s;
    record(program_.messages[static_cast<size_t>(id)].send_task, state.start_s, end_s);
    wake(channel.sender, id);
    wake(channel.receiver, id);
  }

  /// Ends the next message on shared links or compute on shared cores; false where there is none.
  bool end_shared_work() {
    const auto done = shared_.next();
    if (!done) return false;
    if (done->id >= compute_of(0)) {
      end_compute(done->id - compute_of(0), done->end_s);
      return true;
    }
    const int32_t id = program_.messages[static_cast<size_t>(done->id)].channel;
    ChannelState& state = channels_[static_cast<size_t>(id)];
    state.busy = false;
    arrive(program_.channels[static_cast<size_t>(id)], state, done->end_s);
    move(id);
    return true;
  }

  void wake(int rank, int32_t id) {
    RankTimes& state = result_.ranks[static_cast<size_t>(rank)];
    if (state.waits_for != id) return;
    state.waits_for = -1;
    ready_.push_back(rank);
  }

  void record(int32_t task, double start_s, double end_s) {
    if (!record_) return;
    result_.start_s[static_cast<size_t>(task)] = start_s;
    result_.end_s[static_cast<size_t>(task)] = end_s;
  }

  const CompiledProgram& program_;
  const Link& link_;
  const std::vector<double> capacity_;   // of shared links, then of cores
  std::vector<std::vector<int>> cores_;  // of a rank, as indices of these
  SharedWork shared_;
  const bool record_, posts_when_reached_;
  EngineResult result_;
  std::vector<MessageTimes> messages_;
  std::vector<ChannelState> channels_;
  std::vector<int> ready_, waiting_to_agree_;
  double agreed_s_ = 0;
};

}  // namespace

double RankTimes::compute(double duration_s, double host_s) {
  issued_s += host_s;
  busy_s += duration_s;
  return go_on(std::max(now_s + duration_s, issued_s));
}

double RankTimes::compute_until(double end_s, double host_s) {
  issued_s += host_s;
  busy_s += end_s - now_s;
  return go_on(std::max(end_s, issued_s));
}

double RankTimes::go_on(double end_s) {
  const double start_s = now_s;
  if (!computed) first_s = start_s;
  computed = true;
  last_s = now_s = end_s;
  return start_s;
}

EngineResult run_engine(const CompiledProgram& program, const Network& network, bool record_times) {
  return Engine(program, network, record_times).run();
}

}  // namespace penstock
