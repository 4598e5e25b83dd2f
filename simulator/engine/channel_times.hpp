// When the messages of one channel have moved, as engine.hpp defines it, for a program that runs
// without SEND and RECV. A message is known by the place of its end, which is `not_sent` at first.
// Who waits for one that was not sent is taken on again by whoever sends it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "simulator/engine/link_times.hpp"

namespace penstock {

/// Messages move as soon as they are sent and the channel is free.
class EagerChannel {
 public:
  using Link = OwnLink;
  EagerChannel(OwnLink link, int64_t /*receive_depth*/) : link_(link) {}

  void send(double sent_s, const Payload& payload, double& end_s) {
    link_.move(end_s, sent_s, payload);
  }
  /// The receiver needs the message now; false where it has to wait until it is sent.
  bool await(const double& end_s, double /*now_s*/) const { return end_s != not_sent; }
  /// The time when the receiver, who has come to the message, goes on with it.
  double take(const double& end_s, double now_s, double propagation_s) const {
    return std::max(now_s, end_s + propagation_s);
  }

 private:
  OwnLink link_;
};

/// Messages move once their receive is posted, too: `receive_depth` at the start, one more whenever
/// the receiver takes a message, and all up to the one that it waits for.
template <class LinkOfChannel>
class PostedChannel {
 public:
  using Link = LinkOfChannel;
  PostedChannel(Link link, int64_t receive_depth)
      : link_(std::move(link)),
        depth_(receive_depth),
        taken_s_(std::bit_ceil(static_cast<size_t>(receive_depth))) {}

  void send(double sent_s, const Payload& payload, double& end_s) {
    const int64_t number = sent_++;
    const bool awaited = awaited_ != nullptr;  // this one, or one behind it
    if (awaited_ == &end_s) awaited_ = nullptr;
    const Sent message{&end_s, sent_s, payload};
    if (number < depth_) return move(message, 0);
    if (number - depth_ < taken_) return move(message, taken_s(number - depth_));
    if (awaited) return move(message, awaited_since_s_);
    end_s = not_posted;
    not_posted_.push(message);
  }

  bool await(double& end_s, double now_s) {
    if (end_s >= 0 || end_s == taken) return true;
    while (!not_posted_.empty() && end_s < moving) move_next(now_s);
    if (end_s >= 0) return true;
    if (end_s == moving) return false;
    awaited_ = &end_s;
    awaited_since_s_ = now_s;
    return false;
  }

  double take(double& end_s, double now_s, double propagation_s) {
    if (end_s == taken) return now_s;
    now_s = std::max(now_s, end_s + propagation_s);
    end_s = taken;
    const int64_t number = taken_++;
    taken_s(number) = now_s;
    if (!not_posted_.empty() && posted_ == number + depth_) move_next(now_s);
    return now_s;
  }

  Link& link() { return link_; }

 private:
  static constexpr double not_posted = -3, taken = -std::numeric_limits<double>::infinity();
  struct Sent {
    double* end_s;
    double sent_s;
    Payload payload;
  };

  void move(const Sent& message, double posted_s) {
    link_.move(*message.end_s, std::max(message.sent_s, posted_s), message.payload);
    ++posted_;
  }
  void move_next(double posted_s) {
    move(not_posted_.front(), posted_s);
    not_posted_.pop();
  }
  /// When the receiver went on with the message that it took as this one; of the last `depth_`.
  double& taken_s(int64_t number) {
    return taken_s_[static_cast<size_t>(number) & (taken_s_.size() - 1)];
  }

  Link link_;
  int64_t depth_, sent_ = 0, posted_ = 0, taken_ = 0;  // messages
  std::vector<double> taken_s_;
  std::queue<Sent> not_posted_;
  const double* awaited_ = nullptr;
  double awaited_since_s_ = 0;
};

}  // namespace penstock
