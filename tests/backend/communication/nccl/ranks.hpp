// Ranks that are threads, joined by a fake of NCCL.
#pragma once

#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "backend/communication/nccl/communicator.hpp"
#include "tests/backend/communication/nccl/fake.hpp"
#include "tests/backend/executor/ranks.hpp"

namespace penstock::test {

/// Rank 0 sends to rank 1 and receives from it.
inline const std::vector<LaneKey> kBothWays{{0, 1, false}, {1, 0, true}};

class FakeRanks {
 public:
  enum Where { computes_on_host, computes_on_device };
  using Connect = std::function<std::unique_ptr<Communicator>()>;

  FakeRanks(int size, std::vector<LaneKey> lanes, Where where = computes_on_host)
      : lanes_(std::move(lanes)), meeting_(size), host_(make_in_process(size)) {
    for (int rank = 0; rank < size; ++rank) {
      apis_.push_back(std::make_unique<FakeNccl>(world_, where == computes_on_host));
    }
  }

  std::function<void(const std::string&)> on_stall;  // of rank 0

  FakeNccl& api(int rank) { return *apis_[rank]; }
  MemoryStore& store() { return store_; }
  void meet() { meeting_.arrive_and_wait(); }
  void pause(bool on) {
    const std::scoped_lock lock(world_->mutex);
    world_->paused = on;
    world_->changed.notify_all();
  }

  /// Each rank connects, runs, and leaves when all have come to the end.
  void run(const std::function<void(Communicator&, FakeNccl&)>& body) {
    run_lossy([&](const Connect& connect, FakeNccl& api, int) {
      const auto own = connect();
      body(*own, api);
      own->barrier();
    });
  }

  /// Each rank connects as it likes. Throws the first exception.
  void run_lossy(const std::function<void(const Connect&, FakeNccl&, int)>& body) {
    std::vector<std::exception_ptr> failures(apis_.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < apis_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body([&] { return connect(rank); }, *apis_[rank], static_cast<int>(rank));
        } catch (...) {
          failures[rank] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  }

  std::unique_ptr<Communicator> connect(size_t rank) {
    NcclOptions options;
    options.deadline_s = 1e9;  // its clock stands still
    if (rank == 0) options.on_stall = on_stall;
    return make_nccl(*apis_[rank], store_, std::move(host_[rank]), lanes_, options);
  }

  void expect_no_handles(int rank) {
    EXPECT_EQ(apis_[rank]->live_comms, 0);
    EXPECT_EQ(apis_[rank]->live_streams, 0);
    EXPECT_EQ(apis_[rank]->live_events, 0);
  }

 private:
  std::vector<LaneKey> lanes_;
  std::barrier<> meeting_;
  std::shared_ptr<FakeWorld> world_ = std::make_shared<FakeWorld>();
  MemoryStore store_;
  Communicators host_;
  std::vector<std::unique_ptr<FakeNccl>> apis_;
};

}  // namespace penstock::test
