#include "backend/profiler/links/link.hpp"

#include <algorithm>
#include <string>

#include "backend/device/clock.hpp"
#include "backend/profiler/links/transfer_load.hpp"
#include "backend/profiler/timing/agree.hpp"
#include "backend/profiler/timing/statistics.hpp"
#include "pipeline/profile/fit.hpp"

namespace penstock::profiler {
namespace {

constexpr int64_t kSmallest = 16;       // bytes: a time stamp fits
constexpr double kLongMessage_s = 0.5;  // larger messages add no information

int round_trips(int64_t bytes) { return bytes <= 1 << 16 ? 20 : bytes <= 1 << 20 ? 9 : 5; }

/// The sender's part of one timed message: new bytes, as of an output, sent once the receiver waits
/// for them; the time stamp goes first.
void send_stamped(Communicator& communicator, int64_t bytes, BusyWork* work) {
  at::Tensor ready = at::zeros({1}, at::kDouble);
  communicator.receive({kReceiver, true}, ready, 1)->wait();
  const at::Tensor message = at::ones({bytes / 8}, at::kDouble);
  message.data_ptr<double>()[0] = now_s();
  const auto transfer = communicator.send({kReceiver, false}, message, 0);
  // Longer than any message: the sender is busy until well after the arrival.
  if (work) {
    const double until = now_s() + 2e-3 + static_cast<double>(message.nbytes()) / 0.3e9;
    while (now_s() < until) work->run();
  }
  transfer->wait();
}

/// The receiver's times of one message.
struct Arrival {
  double since_stamp_s = 0;  // by both ranks' clocks
  double since_asked_s = 0;  // by the receiver's alone, its request included
};

Arrival receive_stamped(Communicator& communicator, int64_t bytes) {
  at::Tensor message = at::empty({bytes / 8}, at::kDouble);
  const auto transfer = communicator.receive({kSender, false}, message, 0);
  const double asked = now_s();
  communicator.send({kSender, true}, at::zeros({1}, at::kDouble), 1)->wait();
  transfer->wait();
  const double arrived = now_s();
  return {arrived - message[0].item<double>(), arrived - asked};
}

/// The time of the receiver's request: half of the smallest message's round trip, where the ranks'
/// clocks cannot be compared.
double word_s(Communicator& communicator) {
  std::vector<double> seconds;
  for (int i = 0; i < round_trips(kSmallest); ++i) {
    if (communicator.rank() == kSender) send_stamped(communicator, kSmallest, nullptr);
    if (communicator.rank() == kReceiver) {
      seconds.push_back(receive_stamped(communicator, kSmallest).since_asked_s);
    }
  }
  return summarize(seconds).median_s / 2;
}

/// `busy`: the sender goes on computing.
LinkCost measure_link(Communicator& communicator, const std::string& kind, int64_t largest,
                      bool one_clock, bool busy) {
  LinkCost link{.kind = kind};
  BusyWork work(cpu_device());
  const double word = one_clock ? 0 : word_s(communicator);
  for (int64_t bytes = kSmallest; bytes <= largest; bytes *= 8) {
    std::vector<double> seconds;
    for (int i = 0; i < round_trips(bytes); ++i) {
      if (communicator.rank() == kSender) send_stamped(communicator, bytes, busy ? &work : nullptr);
      if (communicator.rank() != kReceiver) continue;
      const Arrival arrival = receive_stamped(communicator, bytes);
      seconds.push_back(one_clock ? arrival.since_stamp_s
                                  : std::max(arrival.since_asked_s - word, word));
    }
    link.samples.emplace_back(bytes,
                              from_rank(communicator, kReceiver, summarize(seconds).median_s));
    if (link.samples.back().second > kLongMessage_s) break;
  }
  const LinkLine fit = fit_link_line(link.samples);
  link.latency_s = fit.latency_s;
  link.bandwidth = fit.bandwidth;
  link.residual = fit.residual;
  return link;
}

}  // namespace

std::vector<LinkCost> measure_links(Communicator& communicator, int64_t largest, bool one_clock) {
  if (communicator.size() < 2) return {};
  const bool copies = communicator.rank() == kReceiver && communicator.receiver_copies(kSender);
  if (from_rank(communicator, kReceiver, copies ? 1 : 0) > 0) {
    return {measure_link(communicator, "local", largest, one_clock, true)};
  }
  LinkCost idle = measure_link(communicator, "gloo", largest, one_clock, false);
  LinkCost busy = measure_link(communicator, "gloo-busy", largest, one_clock, true);
  const TransferLoad load = transfer_load(communicator, cpu_device(), idle, one_clock);
  idle.sender_s_per_byte = busy.sender_s_per_byte = load.sender_s_per_byte;
  idle.receiver_s_per_byte = busy.receiver_s_per_byte = load.receiver_s_per_byte;
  return {idle, busy};
}

}  // namespace penstock::profiler
