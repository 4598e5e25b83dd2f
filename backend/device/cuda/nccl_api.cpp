#include "backend/device/cuda/nccl_api.hpp"

#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <thread>

#include "backend/device/clock.hpp"
#include "backend/device/cuda/call.hpp"

namespace penstock::cuda {

namespace {

cudaStream_t stream_of(NcclApi::Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(NcclApi::Event event) { return static_cast<cudaEvent_t>(event); }
ncclComm_t comm_of(NcclApi::Comm comm) { return static_cast<ncclComm_t>(comm); }

NcclApi::Status status_of(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return NcclApi::Status::done;
    case ncclInProgress: return NcclApi::Status::in_progress;
    case ncclRemoteError:
    case ncclSystemError: return NcclApi::Status::peer_lost;  // usually a closed socket
    default: return NcclApi::Status::failed;
  }
}

ncclDataType_t type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return ncclFloat32;
    case at::kDouble: return ncclFloat64;
    case at::kHalf: return ncclFloat16;
    case at::kBFloat16: return ncclBfloat16;
    case at::kInt: return ncclInt32;
    case at::kLong: return ncclInt64;
    case at::kChar: return ncclInt8;
    case at::kByte: return ncclUint8;
    default:
      throw std::runtime_error(std::string("NCCL cannot sum tensors of ") + c10::toString(type));
  }
}

NcclApi::Numbers part_of(const NcclApi::Numbers& numbers, int size, int rank) {
  const size_t count = numbers.count / static_cast<size_t>(size);
  const size_t begin = count * static_cast<size_t>(rank) * c10::elementSize(numbers.type);
  return {static_cast<char*>(numbers.data) + begin, count, numbers.type};
}

/// A call of NCCL is usually done before a thread could sleep and wake.
constexpr double kSpin_s = 1e-3;

class Nccl : public NcclApi {
 public:
  std::string unique_id() override {
    ncclUniqueId id{};
    if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) {
      throw std::runtime_error(std::string("NCCL gave no id: ") + ncclGetLastError(nullptr));
    }
    return {id.internal, sizeof id.internal};
  }

  Status init(Comm& comm, int size, int rank, const std::string& id, int max_ctas) override {
    ncclUniqueId unique{};
    if (id.size() != sizeof unique.internal) return Status::failed;
    std::memcpy(unique.internal, id.data(), id.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.minCTAs = 1;
    config.maxCTAs = max_ctas;
    ncclComm_t made = nullptr;
    const ncclResult_t result = ncclCommInitRankConfig(&made, size, unique, rank, &config);
    comm = made;
    return status_of(result);
  }

  Status send(Comm comm, const void* data, size_t bytes, int peer, Stream stream) override {
    return status_of(ncclSend(data, bytes, ncclUint8, peer, comm_of(comm), stream_of(stream)));
  }
  Status receive(Comm comm, void* data, size_t bytes, int peer, Stream stream) override {
    return status_of(ncclRecv(data, bytes, ncclUint8, peer, comm_of(comm), stream_of(stream)));
  }
  Status all_reduce(Comm comm, const Numbers& numbers, Stream stream) override {
    const auto& [data, count, type] = numbers;
    return status_of(
        ncclAllReduce(data, data, count, type_of(type), ncclSum, comm_of(comm), stream_of(stream)));
  }
  Status reduce_scatter(Comm comm, const Numbers& numbers, int size, int rank,
                        Stream stream) override {
    const Numbers own = part_of(numbers, size, rank);
    return status_of(ncclReduceScatter(numbers.data, own.data, own.count, type_of(own.type),
                                       ncclSum, comm_of(comm), stream_of(stream)));
  }
  Status all_gather(Comm comm, const Numbers& numbers, int size, int rank, Stream stream) override {
    const Numbers own = part_of(numbers, size, rank);
    return status_of(ncclAllGather(own.data, numbers.data, own.count, type_of(own.type),
                                   comm_of(comm), stream_of(stream)));
  }

  /// With itself, too, as one group.
  Status all_to_all(Comm comm, const void* sent, void* received, size_t bytes_of_part, int size,
                    Stream stream) override {
    ncclResult_t result = ncclGroupStart();
    for (int peer = 0; peer < size && result == ncclSuccess; ++peer) {
      const size_t place = static_cast<size_t>(peer) * bytes_of_part;
      result = ncclSend(static_cast<const char*>(sent) + place, bytes_of_part, ncclUint8, peer,
                        comm_of(comm), stream_of(stream));
      if (result == ncclSuccess)
        result = ncclRecv(static_cast<char*>(received) + place, bytes_of_part, ncclUint8, peer,
                          comm_of(comm), stream_of(stream));
    }
    const ncclResult_t ended = ncclGroupEnd();
    return status_of(result == ncclSuccess ? ended : result);
  }

  Status status(Comm comm) override {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm_of(comm), &state);
    return status_of(asked == ncclSuccess ? state : asked);
  }
  std::string last_error(Comm comm) override {
    const char* text = ncclGetLastError(comm_of(comm));
    return text == nullptr ? "" : text;
  }
  void abort(const std::vector<Comm>& comms, double timeout_s) noexcept override {
    try {
      auto done = std::make_shared<std::promise<void>>();
      const std::future<void> freed = done->get_future();
      std::thread([comms, done] {
        // In one group all are aborted before one is freed, which waits for the kernels of the
        // others. ncclCommRevoke is of no use: in 2.28 it reads fields that a communicator that was
        // never initialised does not have, and the abort that follows a CUDA error never returns.
        ncclGroupStart();
        for (const Comm comm : comms) ncclCommAbort(comm_of(comm));
        ncclGroupEnd();
        done->set_value();
      }).detach();
      freed.wait_for(std::chrono::duration<double>(timeout_s));
    } catch (const std::exception&) {  // no thread could be started: the process ends them
    }
  }

  Stream compute_stream() override { return c10::cuda::getCurrentCUDAStream().stream(); }
  Stream make_stream() override {
    cudaStream_t stream = nullptr;
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities of streams");
    // Highest priority: a peer may wait for a transfer while this rank computes.
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), "a stream");
    return stream;
  }
  void drop_stream(Stream stream) noexcept override { cudaStreamDestroy(stream_of(stream)); }
  Event make_event() override {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
    return event;
  }
  void drop_event(Event event) noexcept override { cudaEventDestroy(event_of(event)); }
  void record(Event event, Stream stream) override {
    check(cudaEventRecord(event_of(event), stream_of(stream)), "recording an event");
  }
  void wait(Stream stream, Event event) override {
    check(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0), "waiting for an event");
  }
  bool passed(Event event) override {
    const cudaError_t state = cudaEventQuery(event_of(event));
    if (state == cudaErrorNotReady) {
      (void)cudaGetLastError();  // clears the error, or a later call would report it
      return false;
    }
    check(state, "the GPU's work");
    return true;
  }

  double now_s() override { return penstock::now_s(); }
  void pause(double waited_s) override {
    if (waited_s < kSpin_s) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
};

}  // namespace

std::unique_ptr<NcclApi> make_nccl_api() { return std::make_unique<Nccl>(); }

}  // namespace penstock::cuda
