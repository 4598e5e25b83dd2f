// One NCCL communicator with its stream, and the events that order it with compute; or one that
// computing itself waits for, on the computing stream.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/communication/nccl/api.hpp"
#include "backend/communication/shared_store.hpp"

namespace penstock {

/// A pool of reusable events. A user owns an event until it releases it.
class EventPool {
 public:
  explicit EventPool(NcclApi& api) : api_(api) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  using Event = std::shared_ptr<void>;
  /// An event recorded on `stream` now. It must not outlive the pool.
  Event record(NcclApi::Stream stream);

 private:
  NcclApi& api_;
  std::vector<NcclApi::Event> free_;
};

class Lane {
 public:
  /// `peer` is named in messages: a rank of the run, -1 where there are several. `computes`: on the
  /// computing stream.
  Lane(NcclApi& api, std::string name, int peer, bool computes = false);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Joins the `size` ranks that call it, as number `self`; number 0 shares an id under
  /// `comm/<name>`. Throws PeerError after `deadline_s`.
  void connect(SharedStore& store, int size, int self, int max_ctas, double deadline_s);

  /// Enqueues `call`, which gets communicator and stream, after the work that the computing stream
  /// has so far. Returns an event that passes when it is done.
  template <class Call>
  EventPool::Event enqueue(EventPool& events, const char* what, double deadline_s, Call call) {
    const NcclApi::Stream stream = computes_ ? api_.compute_stream() : stream_;
    if (!computes_) wait_for_compute(events);
    settle(call(comm_, stream), what, deadline_s);
    return last_ = events.record(stream);
  }

  /// Throws where something in flight has failed: PeerError, if the peer is the reason.
  void check(const char* what);
  const std::string& name() const { return name_; }
  /// Is the last enqueued call still running?
  bool under_way() const { return last_ && !api_.passed(last_.get()); }
  NcclApi::Comm comm() const { return comm_; }
  /// Forgets the communicator, which has been aborted; only the stream is left to free.
  void forget() { comm_ = nullptr; }

 private:
  void wait_for_compute(EventPool& events);
  void settle(NcclApi::Status status, const char* what, double deadline_s);
  [[noreturn]] void fail(NcclApi::Status status, const char* what);

  NcclApi& api_;
  std::string name_;
  int peer_;
  bool computes_;
  NcclApi::Comm comm_ = nullptr;
  NcclApi::Stream stream_ = nullptr;
  EventPool::Event last_;
};

}  // namespace penstock
