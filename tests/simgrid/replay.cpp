#include "tests/simgrid/replay.hpp"

#include <algorithm>
#include <deque>
#include <simgrid/s4u.hpp>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "tests/simgrid/network.hpp"

namespace penstock::testing {

namespace {

/// From which stage, to which, of which microbatch: the same for a SEND and its RECV.
using MessageKey = std::tuple<int, int, int, bool>;
using ChannelKey = std::tuple<int, int, bool>;  // sending rank, receiving rank, backward

bool is_backward(Kind kind) { return kind == Kind::send_backward || kind == Kind::recv_backward; }

MessageKey message_key(const Action& action) {
  const int peer = peer_stage(action);
  const bool send = is_send(action.kind);
  return {send ? action.stage : peer, send ? peer : action.stage, action.microbatch,
          is_backward(action.kind)};
}

struct Message {
  int64_t bytes;
  sg4::SemaphorePtr moved;  // it has left the channel
  double arrives_s = 0;     // then known
};

struct ChannelQueue {
  Path path;
  sg4::SemaphorePtr sent;          // counts the messages that are there
  std::vector<Message*> messages;  // in the order in which they are sent
};

class Replay {
 public:
  Replay(const Program& program, const Costs& costs, const Platform& platform)
      : program_(program), costs_(costs), network_(platform) {
    for (const auto& rank : program.ranks) {
      for (const Action& action : rank) {
        if (is_send(action.kind)) add_message(action);
      }
    }
  }

  double run() {
    std::vector<double> ends_s(program_.ranks.size(), 0);
    for (size_t rank = 0; rank < program_.ranks.size(); ++rank) {
      sg4::Actor::create("rank", network_.add_host(), [this, rank, &ends_s] {
        run_rank(program_.ranks[rank]);
        ends_s[rank] = sg4::Engine::get_clock();
      });
    }
    for (auto& [key, channel] : channels_) {
      sg4::Actor::create("channel", channel.path.from, [&lane = channel] { run_channel(lane); });
    }
    network_.run();
    return *std::max_element(ends_s.begin(), ends_s.end());
  }

 private:
  void add_message(const Action& send) {
    const int from = program_.rank_of_stage.at(static_cast<size_t>(send.stage));
    const int to = program_.rank_of_stage.at(static_cast<size_t>(peer_stage(send)));
    auto found = channels_.find({from, to, is_backward(send.kind)});
    if (found == channels_.end()) {
      ChannelQueue fresh{network_.add_path(from, to), sg4::Semaphore::create(0), {}};
      found = channels_.emplace(ChannelKey{from, to, is_backward(send.kind)}, fresh).first;
    }
    Message& message =
        messages_.emplace_back(Message{costs_.message_bytes(send), sg4::Semaphore::create(0)});
    found->second.messages.push_back(&message);
    by_key_[message_key(send)] = {&message, found->second.sent.get()};
  }

  static void run_channel(const ChannelQueue& channel) {
    for (Message* message : channel.messages) {
      channel.sent->acquire();
      transfer(channel.path, message->bytes);
      message->arrives_s = sg4::Engine::get_clock() + channel.path.propagation_s;
      message->moved->release();
    }
  }

  void run_rank(const std::vector<Action>& actions) {
    std::vector<Action> posted;
    for (const Action& action : actions) {
      if (is_send(action.kind)) {
        by_key_.at(message_key(action)).sent->release();
      } else if (is_receive(action.kind)) {
        posted.push_back(action);
      } else if (is_compute(action.kind)) {
        for_each_part(action, [&](const Action& part) { await(part, posted); });
        sg4::this_actor::sleep_for(costs_.duration_s(action));
      } else {
        throw std::invalid_argument("replay: cannot run " + to_string(action));
      }
    }
    if (!posted.empty()) {
      throw std::invalid_argument("replay: nothing needs " + to_string(posted.front()));
    }
  }

  /// Waits for the posted messages that the compute needs, and forgets them.
  void await(const Action& compute, std::vector<Action>& posted) {
    if (compute.kind == Kind::backward_weight) return;
    const Kind needed = compute.kind == Kind::forward ? Kind::recv_forward : Kind::recv_backward;
    std::erase_if(posted, [&](const Action& receive) {
      if (receive.kind != needed || receive.stage != compute.stage ||
          receive.microbatch != compute.microbatch) {
        return false;
      }
      const Message& message = *by_key_.at(message_key(receive)).message;
      message.moved->acquire();
      sg4::this_actor::sleep_until(message.arrives_s);
      return true;
    });
  }

  struct Known {
    Message* message = nullptr;
    sg4::Semaphore* sent = nullptr;
  };
  const Program& program_;
  const Costs& costs_;
  Network network_;
  std::map<ChannelKey, ChannelQueue> channels_;
  std::deque<Message> messages_;  // stay where they are
  std::map<MessageKey, Known> by_key_;
};

}  // namespace

double simgrid_makespan_s(const Program& lowered, const Costs& costs, const Platform& platform) {
  return Replay(lowered, costs, platform).run();
}

}  // namespace penstock::testing
