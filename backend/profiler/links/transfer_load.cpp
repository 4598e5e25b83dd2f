#include "backend/profiler/links/transfer_load.hpp"

#include <algorithm>

#include "backend/profiler/timing/agree.hpp"
#include "backend/profiler/timing/statistics.hpp"

namespace penstock::profiler {
namespace {

constexpr int64_t kLargestMessage = 4 << 20;  // bytes of one transfer
constexpr int kMessages = 8;
constexpr double kLongLoad_s = 0.05;  // of all transfers

/// Seconds of `count` pieces of work, with concurrent transfers of `bytes` each, or none.
double loaded_s(Communicator& communicator, ComputeDevice& device, BusyWork& work, int count,
                int64_t bytes) {
  std::vector<at::Tensor> tensors;
  std::vector<std::unique_ptr<Transfer>> pending;
  const int rank = communicator.rank();
  for (int i = 0; bytes > 0 && rank < 2 && i < kMessages; ++i) {
    tensors.push_back(at::zeros({bytes / 4}, at::TensorOptions().device(device.where())));
  }
  communicator.synchronise();
  for (int i = 0; rank == kReceiver && i < static_cast<int>(tensors.size()); ++i) {
    pending.push_back(communicator.receive({kSender, false}, tensors[i], i));
  }
  communicator.barrier();
  const double seconds = seconds_on(device, [&] {
    for (int i = 0; rank == kSender && i < static_cast<int>(tensors.size()); ++i) {
      pending.push_back(communicator.send({kReceiver, false}, tensors[i], i));
    }
    for (int i = 0; i < count; ++i) work.run();
  });
  for (const auto& transfer : pending) transfer->wait();
  communicator.synchronise();
  communicator.barrier();
  return seconds;
}

int64_t message_bytes(const LinkCost& idle) {
  const double affordable = std::max(idle.bandwidth * kLongLoad_s / kMessages, 4096.0);
  const bool small = idle.bandwidth > 0 && affordable < kLargestMessage;
  return small ? static_cast<int64_t>(affordable) / 4 * 4 : kLargestMessage;
}

/// The compute lasts eight times as long as the transfers on idle ranks, so that they end within
/// it.
int pieces_beside(Communicator& communicator, ComputeDevice& device, BusyWork& work,
                  const LinkCost& idle, int64_t bytes) {
  const double byte_s = idle.bandwidth > 0 ? 1 / idle.bandwidth : 0;
  const double transfers_s = kMessages * (idle.latency_s + static_cast<double>(bytes) * byte_s);
  work.run();
  const double piece_s = from_rank(communicator, kSender, seconds_on(device, [&] { work.run(); }));
  return std::clamp(static_cast<int>(8 * transfers_s / piece_s), 20, 2000);
}

}  // namespace

BusyWork::BusyWork(ComputeDevice& device) {
  const bool cpu = device.where().is_cpu();
  const int64_t side = cpu ? 384 : 2560;
  const auto options = at::TensorOptions(at::kFloat).device(device.where());
  matrix_ = at::full({side, side}, 1e-3, options);
  product_ = at::empty({side, side}, options);
}

TransferLoad transfer_load(Communicator& communicator, ComputeDevice& device, const LinkCost& idle,
                           bool sure) {
  BusyWork work(device);
  const int64_t bytes = message_bytes(idle);
  const int count = pieces_beside(communicator, device, work, idle, bytes);
  std::vector<double> alone, loaded;
  for (int i = 0; i < 3; ++i) {
    alone.push_back(loaded_s(communicator, device, work, count, 0));
    loaded.push_back(loaded_s(communicator, device, work, count, bytes));
  }
  const Measured with = summarize(loaded), without = summarize(alone);
  double extra_s = std::max(0.0, with.median_s - without.median_s);
  // A slow link moves few bytes meanwhile: their effect would be below the noise.
  if (!sure && extra_s < std::max(with.spread_s, without.spread_s)) extra_s = 0;
  const double per_byte_s = extra_s / (kMessages * static_cast<double>(bytes));
  return {from_rank(communicator, kSender, per_byte_s),
          from_rank(communicator, kReceiver, per_byte_s)};
}

}  // namespace penstock::profiler
