#include "backend/profiler/link.hpp"

#include <algorithm>

#include "backend/profiler/agree.hpp"
#include "backend/profiler/clock.hpp"
#include "backend/profiler/statistics.hpp"
#include "pipeline/fit.hpp"

namespace penstock::profiler {
namespace {

constexpr int sender = 0, receiver = 1;
constexpr int64_t smallest = 16;           // bytes: a time stamp fits
constexpr int64_t load_message = 4 << 20;  // bytes of one transfer under load, at most
constexpr int load_messages = 8;
constexpr double long_message_s = 0.5;  // larger ones tell nothing new
constexpr double long_load_s = 0.05;    // of all transfers under load

/// A fixed piece of compute, about a millisecond.
class Work {
 public:
  void run() { at::mm_out(product_, matrix_, matrix_); }

 private:
  at::Tensor matrix_ = at::full({384, 384}, 1e-3), product_ = at::empty({384, 384});
};

int round_trips(int64_t bytes) { return bytes <= 1 << 16 ? 20 : bytes <= 1 << 20 ? 9 : 5; }

/// The sender's part of one timed message: once the receiver has posted, the time goes first.
void send_stamped(Communicator& communicator, const at::Tensor& message, Work* work) {
  at::Tensor ready = at::zeros({1}, at::kDouble);
  communicator.receive({receiver, true}, ready, 1)->wait();
  message[0] = now_s();
  const auto transfer = communicator.send({receiver, false}, message, 0);
  // Longer than any message takes: the sender is busy until well after the arrival.
  if (work) {
    const double until = now_s() + 2e-3 + static_cast<double>(message.nbytes()) / 0.3e9;
    while (now_s() < until) work->run();
  }
  transfer->wait();
}

/// The receiver's part, for the way of one message.
struct Arrival {
  double since_stamp_s = 0;  // by both ranks' clocks
  double since_asked_s = 0;  // by the receiver's alone: with the way of the word that it has posted
};

Arrival receive_stamped(Communicator& communicator, at::Tensor& message) {
  const auto transfer = communicator.receive({sender, false}, message, 0);
  const double asked = now_s();
  communicator.send({sender, true}, at::zeros({1}, at::kDouble), 1)->wait();
  transfer->wait();
  const double arrived = now_s();
  return {arrived - message[0].item<double>(), arrived - asked};
}

/// Half of the smallest message's round trip, where the ranks' clocks cannot be compared: what the
/// word that the receiver has posted takes.
double word_s(Communicator& communicator) {
  std::vector<double> seconds;
  at::Tensor message = at::zeros({smallest / 8}, at::kDouble);
  for (int i = 0; i < round_trips(smallest); ++i) {
    if (communicator.rank() == sender) send_stamped(communicator, message, nullptr);
    if (communicator.rank() == receiver) {
      seconds.push_back(receive_stamped(communicator, message).since_asked_s);
    }
  }
  return summarize(seconds).median_s / 2;
}

LinkCost measure_link(Communicator& communicator, int64_t largest, bool one_clock, bool busy) {
  LinkCost link{.kind = busy ? "gloo-busy" : "gloo"};
  Work work;
  const double word = one_clock ? 0 : word_s(communicator);
  for (int64_t bytes = smallest; bytes <= largest; bytes *= 8) {
    at::Tensor message = at::zeros({bytes / 8}, at::kDouble);
    std::vector<double> seconds;
    for (int i = 0; i < round_trips(bytes); ++i) {
      if (communicator.rank() == sender)
        send_stamped(communicator, message, busy ? &work : nullptr);
      if (communicator.rank() != receiver) continue;
      const Arrival arrival = receive_stamped(communicator, message);
      seconds.push_back(one_clock ? arrival.since_stamp_s
                                  : std::max(arrival.since_asked_s - word, word));
    }
    link.samples.emplace_back(bytes,
                              from_rank(communicator, receiver, summarize(seconds).median_s));
    if (link.samples.back().second > long_message_s) break;
  }
  const LinkLine fit = fit_link_line(link.samples);
  link.latency_s = fit.latency_s;
  link.bandwidth = fit.bandwidth;
  link.residual = fit.residual;
  return link;
}

/// Seconds that `count` pieces of work take, with transfers of so many bytes beside them, or none.
double loaded_s(Communicator& communicator, Work& work, int count, int64_t bytes) {
  std::vector<at::Tensor> messages;
  std::vector<std::unique_ptr<Transfer>> pending;
  const int rank = communicator.rank();
  for (int i = 0; bytes > 0 && rank < 2 && i < load_messages; ++i) {
    messages.push_back(at::zeros({bytes / 4}));
  }
  for (int i = 0; rank == receiver && i < static_cast<int>(messages.size()); ++i) {
    pending.push_back(communicator.receive({sender, false}, messages[i], i));
  }
  communicator.barrier();
  const double seconds = time_s([&] {
    for (int i = 0; rank == sender && i < static_cast<int>(messages.size()); ++i) {
      pending.push_back(communicator.send({receiver, false}, messages[i], i));
    }
    for (int i = 0; i < count; ++i) work.run();
  });
  for (const auto& transfer : pending) transfer->wait();
  communicator.barrier();
  return seconds;
}

/// Compute seconds that a byte costs this rank when it is moved beside the compute. The compute
/// lasts eight times as long as the transfers do on idle ranks, so that they end within it.
double compute_s_per_byte(Communicator& communicator, const LinkCost& idle, bool one_clock) {
  Work work;
  const double affordable = std::max(idle.bandwidth * long_load_s / load_messages, 4096.0);
  const int64_t bytes = idle.bandwidth > 0 && affordable < load_message
                            ? static_cast<int64_t>(affordable) / 4 * 4
                            : load_message;
  const double transfers_s =
      load_messages *
      (idle.latency_s + (idle.bandwidth > 0 ? static_cast<double>(bytes) / idle.bandwidth : 0));
  work.run();
  const double piece_s = from_rank(communicator, 0, time_s([&] { work.run(); }));
  const int count = std::clamp(static_cast<int>(8 * transfers_s / piece_s), 20, 2000);
  std::vector<double> alone, loaded;
  for (int i = 0; i < 3; ++i) {
    alone.push_back(loaded_s(communicator, work, count, 0));
    loaded.push_back(loaded_s(communicator, work, count, bytes));
  }
  const Measured with = summarize(loaded), without = summarize(alone);
  const double extra = with.median_s - without.median_s;
  // A slow link moves few bytes while this computes: noise would weigh more than they do.
  if (!one_clock && extra < std::max(with.spread_s, without.spread_s)) return 0;
  return std::max(0.0, extra / (load_messages * static_cast<double>(bytes)));
}

}  // namespace

std::vector<LinkCost> measure_links(Communicator& communicator, int64_t largest, bool one_clock) {
  if (communicator.size() < 2) return {};
  LinkCost idle = measure_link(communicator, largest, one_clock, false);
  LinkCost busy = measure_link(communicator, largest, one_clock, true);
  const double cost = compute_s_per_byte(communicator, idle, one_clock);
  idle.sender_s_per_byte = busy.sender_s_per_byte = from_rank(communicator, sender, cost);
  idle.receiver_s_per_byte = busy.receiver_s_per_byte = from_rank(communicator, receiver, cost);
  return {idle, busy};
}

}  // namespace penstock::profiler
