// What the messages of a channel move on, one after the other, in order: a link of their own, where
// it is known at once when they have moved, or links that others share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>

#include "simulator/network/network.hpp"
#include "simulator/network/shared_work.hpp"

namespace penstock {

/// In place of the end of a message that has none yet; all times are >= 0.
constexpr double moving = -1, not_sent = -2;

/// A message's size.
struct Payload {
  int64_t bytes = 0;
  double transfer_s = 0;  // that nobody else slows
};

class OwnLink {
 public:
  OwnLink() = default;
  OwnLink(int32_t /*channel*/, const Route& /*route*/, SharedWork& /*work*/) {}

  /// Moves a message that is ready then, once those before it have moved.
  void move(double& end_s, double ready_s, const Payload& payload) {
    end_s = free_s_ = std::max(ready_s, free_s_) + payload.transfer_s;
  }

 private:
  double free_s_ = 0;
};

class SharedLink {
 public:
  /// The link of this channel, which hands its messages to `work` under this number. Both outlive
  /// it.
  SharedLink(int32_t channel, const Route& route, SharedWork& work)
      : channel_(channel), route_(&route), work_(&work) {}

  /// As OwnLink; what others can slow is `moving` until `work` ends it.
  void move(double& end_s, double ready_s, const Payload& payload) {
    if (route_->shared.empty()) return own_.move(end_s, ready_s, payload);
    end_s = moving;
    waiting_.push({&end_s, ready_s, static_cast<double>(payload.bytes)});
    if (waiting_.size() == 1) begin_next();
  }

  /// Ends the message that `work` has ended, and returns where its end is.
  double* end(double end_s) {
    double* const ended = waiting_.front().end_s;
    *ended = free_s_ = end_s;
    waiting_.pop();
    if (!waiting_.empty()) begin_next();
    return ended;
  }

 private:
  struct Waiting {
    double* end_s;
    double ready_s, bytes;
  };

  void begin_next() {
    const Waiting& next = waiting_.front();
    work_->add({channel_, std::max(next.ready_s, free_s_), route_->latency_s, next.bytes,
                route_->bandwidth, &route_->shared});
  }

  int32_t channel_;
  const Route* route_;
  SharedWork* work_;
  OwnLink own_;  // where it shares nothing
  double free_s_ = 0;
  std::queue<Waiting> waiting_;  // the first is under way
};

}  // namespace penstock
