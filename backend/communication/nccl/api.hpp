// All that the communicator uses of NCCL, and of CUDA's streams and events: a thin table, so that
// the communicator's logic is tested without a GPU. The real one is
// backend/device/cuda/nccl_api.cpp.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <string>
#include <vector>

namespace penstock {

/// Handles are CUDA's and NCCL's own pointers. Where no status is returned, a call that fails
/// throws std::runtime_error.
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

  /// What the ranks of a new communicator must share.
  virtual std::string unique_id() = 0;
  /// Begins to connect; what it made is to be aborted whatever it returns.
  virtual Status init(Comm& comm, int size, int rank, const std::string& id, int most_ctas) = 0;
  /// These enqueue. Until `status` is no longer `in_progress`, nothing else may be asked of `comm`.
  virtual Status send(Comm comm, const void* data, size_t bytes, int peer, Stream stream) = 0;
  virtual Status receive(Comm comm, void* data, size_t bytes, int peer, Stream stream) = 0;
  /// One after the other, in one call of the device where that can be.
  virtual Status all_reduce(Comm comm, const std::vector<Numbers>& sums, Stream stream) = 0;
  /// Of the last call and of all that is under way.
  virtual Status status(Comm comm) = 0;
  /// In NCCL's words; `comm` may be null, where none was made.
  virtual std::string last_error(Comm comm) = 0;
  /// Tells all of them to end what is under way, then frees them; does not throw. Waits for that so
  /// long at most: NCCL may free nothing before the peers' communicators are aborted as well.
  virtual void abort(const std::vector<Comm>& comms, double patience_s) noexcept = 0;

  /// The one that tensors are computed on.
  virtual Stream compute_stream() = 0;
  virtual Stream make_stream() = 0;
  virtual void drop_stream(Stream stream) noexcept = 0;
  virtual Event make_event() = 0;
  virtual void drop_event(Event event) noexcept = 0;
  /// The event passes when all enqueued so far has run.
  virtual void record(Event event, Stream stream) = 0;
  /// What is enqueued from now on waits for the event; the host does not.
  virtual void wait(Stream stream, Event event) = 0;
  virtual bool passed(Event event) = 0;

  /// Seconds of a monotonic clock, for deadlines; and a rest between two questions, short at first.
  virtual double now_s() = 0;
  virtual void pause(double waited_s) = 0;
};

}  // namespace penstock
