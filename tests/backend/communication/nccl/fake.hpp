// NCCL between threads, without a GPU: every stream is a queue that a thread of its rank runs in
// order; a message moves once both its send and its receive are at the front of their queues.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>

#include "backend/communication/nccl/api.hpp"
#include "backend/communication/shared_store.hpp"

namespace penstock::test {

/// A store for threads.
class MemoryStore : public SharedStore {
 public:
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key) override;
  std::optional<std::string> get_within(const std::string& key, double seconds) override;
  void append(const std::string& key, const std::string& value) override;
  bool has(const std::string& key);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

/// The state that the ranks share.
class FakeWorld {
 public:
  struct Letter {
    const void* data = nullptr;
    size_t bytes = 0;
    std::shared_ptr<bool> taken;
  };
  struct Group {
    int size = 0;
    std::set<int> joined;
    bool lost = false;                                       // a member has left
    std::map<std::pair<int, int>, std::deque<Letter>> mail;  // from, to
    std::map<int, std::map<int, at::Tensor>> sums;           // by number: parts by member
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<Group>> groups;  // by id
  int ids = 0;
  bool paused = false;  // no device does anything
};

class FakeNccl : public NcclApi {
 public:
  /// `host_computes`: tensors are computed as they are enqueued, so the host waits where the
  /// computing stream would, and until what is enqueued there has ended.
  FakeNccl(std::shared_ptr<FakeWorld> world, bool host_computes);
  ~FakeNccl() override;

  /// The next call of that name returns this status; `status` returns it from then on.
  std::map<std::string, Status> failing;
  double pause_s = 0;              // the clock's step at each pause
  std::vector<std::string> calls;  // names, in order, with communicator and stream by number
  int live_comms = 0, live_streams = 0, live_events = 0, pauses = 0;
  int running();  // operations that are enqueued and have not ended

  std::string unique_id() override;
  Status init(Comm& comm, int size, int rank, const std::string& id, int max_ctas) override;
  Status send(Comm comm, const void* data, size_t bytes, int peer, Stream stream) override;
  Status receive(Comm comm, void* data, size_t bytes, int peer, Stream stream) override;
  Status all_reduce(Comm comm, const Numbers& numbers, Stream stream) override;
  Status reduce_scatter(Comm comm, const Numbers& numbers, int size, int rank,
                        Stream stream) override;
  Status all_gather(Comm comm, const Numbers& numbers, int size, int rank, Stream stream) override;
  Status all_to_all(Comm comm, const void* sent, void* received, size_t bytes_of_part, int size,
                    Stream stream) override;
  Status status(Comm comm) override;
  std::string last_error(Comm comm) override;
  void abort(const std::vector<Comm>& comms, double timeout_s) noexcept override;
  Stream compute_stream() override { return &compute_; }
  Stream make_stream() override;
  void drop_stream(Stream stream) noexcept override;
  Event make_event() override;
  void drop_event(Event event) noexcept override;
  void record(Event event, Stream stream) override;
  void wait(Stream stream, Event event) override;
  bool passed(Event event) override;
  double now_s() override { return clock_s_; }
  void pause(double waited_s) override;

 private:
  using Operation = std::function<bool()>;  // true when it has ended
  struct FakeStream {
    int number = 0;
    std::deque<Operation> queue;
  };
  struct FakeComm {
    int number = 0, rank = 0, sums = 0;
    bool stopped = false;
    std::shared_ptr<FakeWorld::Group> group;
  };
  struct FakeEvent {
    std::shared_ptr<bool> passed;
  };
  void work();
  bool step();
  /// With what all have given, by member.
  using Use = std::function<void(const std::map<int, at::Tensor>& all)>;
  Status collect(const char* name, Comm comm, const at::Tensor& given, Stream stream,
                 const Use& use);
  Status enqueue(const char* name, Comm comm, Stream stream, const Operation& operation);
  Status outcome(const std::string& name, Status otherwise);

  std::shared_ptr<FakeWorld> world_;
  bool host_computes_, end_ = false;
  int made_ = 0;
  double clock_s_ = 0;
  FakeStream compute_;
  std::vector<std::unique_ptr<FakeStream>> streams_;
  std::vector<std::unique_ptr<FakeComm>> comms_;
  std::thread device_;
};

}  // namespace penstock::test
