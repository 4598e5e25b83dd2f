#include <vector>

#include "backend/profiler/links/link.hpp"
#include "backend/profiler/links/transfer_load.hpp"
#include "backend/profiler/timing/agree.hpp"
#include "backend/profiler/timing/statistics.hpp"
#include "pipeline/profile/fit.hpp"

namespace penstock::profiler {
namespace {

constexpr int kRoundTrips = 10, kMeasuredTimes = 9;

/// One-way seconds of a message that goes back and forth a number of times.
double one_way_s(Communicator& communicator, ComputeDevice& device, at::Tensor& message) {
  const bool first = communicator.rank() == 0;
  communicator.synchronise();
  communicator.barrier();
  const double seconds = seconds_on(device, [&] {
    for (int i = 0; i < kRoundTrips; ++i) {
      if (first) {
        communicator.send({1, false}, message, 0)->wait();
        communicator.receive({1, true}, message, 1)->wait();
      } else {
        communicator.receive({0, false}, message, 0)->wait();
        communicator.send({0, true}, message, 1)->wait();
      }
    }
  });
  return seconds / (2 * kRoundTrips);
}

}  // namespace

std::vector<LinkCost> measure_gpu_links(Communicator& communicator, ComputeDevice& device,
                                        int64_t largest) {
  if (communicator.size() < 2) return {};
  LinkCost link{.kind = "nccl"};
  for (int64_t bytes = 16; bytes <= largest; bytes *= 8) {
    double seconds = 0;
    if (communicator.rank() < 2) {
      at::Tensor message = at::zeros({bytes}, at::TensorOptions(at::kByte).device(device.where()));
      std::vector<double> samples;
      for (int i = 0; i <= kMeasuredTimes; ++i) {  // the first warms up
        const double sample = one_way_s(communicator, device, message);
        if (i > 0) samples.push_back(sample);
      }
      seconds = summarize(samples).median_s;
    } else {
      for (int i = 0; i <= kMeasuredTimes; ++i) communicator.barrier();
    }
    link.samples.emplace_back(bytes, from_rank(communicator, 0, seconds));
  }
  const LinkLine fit = fit_link_line(link.samples);
  link.latency_s = fit.latency_s;
  link.bandwidth = fit.bandwidth;
  link.residual = fit.residual;
  const TransferLoad load = transfer_load(communicator, device, link, false);
  link.sender_s_per_byte = load.sender_s_per_byte;
  link.receiver_s_per_byte = load.receiver_s_per_byte;
  return {link};
}

}  // namespace penstock::profiler
