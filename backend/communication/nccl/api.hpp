// The part of NCCL, and of CUDA's streams and events, that the communicator uses: a thin interface,
// so that the communicator's logic is tested without a GPU. The real implementation is
// backend/device/cuda/nccl_api.cpp.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <string>
#include <vector>

namespace penstock {

/// Handles are CUDA's and NCCL's own pointers. A failing call that returns no status throws
/// std::runtime_error.
class NcclApi {
 public:
  using Comm = void*;
  using Stream = void*;
  using Event = void*;
  enum class Status { done, in_progress, peer_lost, failed };
  struct Numbers {
    void* data;
    size_t count;
    at::ScalarType type;
  };

  virtual ~NcclApi() = default;

  /// An id that the ranks of a new communicator must share.
  virtual std::string unique_id() = 0;
  /// Begins to connect; `comm` is to be aborted whatever this returns.
  virtual Status init(Comm& comm, int size, int rank, const std::string& id, int max_ctas) = 0;
  /// The next six enqueue. Until `status` is no longer `in_progress`, nothing else may be asked
  /// of `comm`.
  virtual Status send(Comm comm, const void* data, size_t bytes, int peer, Stream stream) = 0;
  virtual Status receive(Comm comm, void* data, size_t bytes, int peer, Stream stream) = 0;
  virtual Status all_reduce(Comm comm, const Numbers& numbers, Stream stream) = 0;
  /// In place, in as many equal parts as there are ranks: `rank` is this one's.
  virtual Status reduce_scatter(Comm comm, const Numbers& numbers, int size, int rank,
                                Stream stream) = 0;
  virtual Status all_gather(Comm comm, const Numbers& numbers, int size, int rank,
                            Stream stream) = 0;
  /// Sends each of `size` ranks a part of so many bytes, and receives one from it.
  virtual Status all_to_all(Comm comm, const void* sent, void* received, size_t bytes_of_part,
                            int size, Stream stream) = 0;
  /// The status of the last call and of everything in flight.
  virtual Status status(Comm comm) = 0;
  /// The last error in NCCL's words; `comm` may be null, where none was made.
  virtual std::string last_error(Comm comm) = 0;
  /// Aborts everything in flight, then frees `comms`, for which it waits `timeout_s` at most: NCCL
  /// may free nothing before the peers' communicators are aborted as well.
  virtual void abort(const std::vector<Comm>& comms, double timeout_s) noexcept = 0;

  /// The stream that tensors are computed on.
  virtual Stream compute_stream() = 0;
  virtual Stream make_stream() = 0;
  virtual void drop_stream(Stream stream) noexcept = 0;
  virtual Event make_event() = 0;
  virtual void drop_event(Event event) noexcept = 0;
  /// Records the event: it passes when everything enqueued so far has run.
  virtual void record(Event event, Stream stream) = 0;
  /// Work enqueued on `stream` from now on waits for the event; the host does not.
  virtual void wait(Stream stream, Event event) = 0;
  virtual bool passed(Event event) = 0;

  /// Seconds of a monotonic clock, for deadlines, and a pause between two polls, short at first.
  virtual double now_s() = 0;
  virtual void pause(double waited_s) = 0;
};

}  // namespace penstock
