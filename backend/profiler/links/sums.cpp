#include "backend/profiler/links/sums.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "backend/profiler/links/transfer_load.hpp"
#include "backend/profiler/timing/agree.hpp"
#include "backend/profiler/timing/statistics.hpp"
#include "pipeline/profile/fit.hpp"

namespace penstock::profiler {
namespace {

constexpr int64_t kSmallestSum = 16, kLargestSum = 32 << 20;  // bytes
constexpr double kLongSum_s = 0.5;                            // larger ones add no information
constexpr int64_t kLoadBytes = 4 << 20;                       // of each sum beside compute
constexpr int kLoadSums = 4, kLoadTimes = 3;

const std::vector<int>& pair() {
  static const std::vector<int> ranks{kSender, kReceiver};
  return ranks;
}

at::Tensor numbers(const ComputeDevice& device, int64_t bytes) {
  return at::zeros({bytes / 4}, at::TensorOptions(at::kFloat).device(device.where()));
}

int sums_of(int64_t bytes) { return bytes <= 1 << 16 ? 20 : bytes <= 1 << 20 ? 9 : 5; }

/// Seconds of one sum, the median of several; each begins when both ranks have ended the last.
double sum_s(Communicator& communicator, ComputeDevice& device, int64_t bytes) {
  std::vector<double> seconds;
  const at::Tensor tensor = numbers(device, bytes);
  for (int i = 0; communicator.rank() < 2 && i <= sums_of(bytes); ++i) {
    communicator.synchronise();
    const double once_s =
        seconds_on(device, [&] { communicator.start_all_reduce(tensor, pair())->wait(); });
    if (i > 0) seconds.push_back(once_s);  // the first warms up
  }
  return from_rank(communicator, kSender, seconds.empty() ? 0 : summarize(seconds).median_s);
}

/// Seconds of `count` pieces of work on a rank, beside so many sums.
double worked_s(Communicator& communicator, ComputeDevice& device, BusyWork& work, int count,
                int sums) {
  std::vector<at::Tensor> tensors;
  std::vector<std::unique_ptr<Transfer>> pending;
  for (int i = 0; communicator.rank() < 2 && i < sums; ++i)
    tensors.push_back(numbers(device, kLoadBytes));
  communicator.synchronise();
  communicator.barrier();
  const double seconds = seconds_on(device, [&] {
    for (const at::Tensor& tensor : tensors)
      pending.push_back(communicator.start_all_reduce(tensor, pair()));
    for (int i = 0; i < count; ++i) work.run();
  });
  for (const auto& transfer : pending) transfer->wait();
  communicator.synchronise();
  communicator.barrier();
  return seconds;
}

/// Seconds of compute that each byte costs, the mean of both ranks. `alone_s`: of one of these sums
/// on idle ranks; the compute lasts eight times as long as all of them, so that they end within it.
double load_s_per_byte(Communicator& communicator, ComputeDevice& device, double alone_s) {
  BusyWork work(device);
  work.run();
  const double piece_s = from_rank(communicator, kSender, seconds_on(device, [&] { work.run(); }));
  const int count = std::clamp(static_cast<int>(8 * kLoadSums * alone_s / piece_s), 20, 2000);
  std::vector<double> alone, beside;
  for (int i = 0; i < kLoadTimes; ++i) {
    alone.push_back(worked_s(communicator, device, work, count, 0));
    beside.push_back(worked_s(communicator, device, work, count, kLoadSums));
  }
  const double extra_s =
      std::max(0.0, summarize(beside).median_s - summarize(alone).median_s) / kLoadSums;
  return (from_rank(communicator, kSender, extra_s) + from_rank(communicator, kReceiver, extra_s)) /
         (2 * static_cast<double>(kLoadBytes));
}

}  // namespace

LinkCost measure_sums(Communicator& communicator, ComputeDevice& device, const std::string& kind) {
  LinkCost link{.kind = kind};
  if (communicator.rank() < 2) communicator.connect_sums(pair());
  double load_alone_s = 0;
  for (int64_t bytes = kSmallestSum; bytes <= kLargestSum; bytes *= 8) {
    link.samples.emplace_back(bytes, sum_s(communicator, device, bytes));
    if (bytes <= kLoadBytes) load_alone_s = link.samples.back().second;
    if (link.samples.back().second > kLongSum_s) break;
  }
  const LinkLine fit = fit_link_line(link.samples);
  link.latency_s = fit.latency_s;
  link.bandwidth = fit.bandwidth;
  link.residual = fit.residual;
  link.sender_s_per_byte = link.receiver_s_per_byte =
      load_s_per_byte(communicator, device, load_alone_s);
  return link;
}

}  // namespace penstock::profiler
