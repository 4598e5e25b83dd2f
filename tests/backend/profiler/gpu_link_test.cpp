// The link of GPUs through NCCL's lanes, on a fake of NCCL that moves real tensors between threads.
#include <gmock/gmock.h>

#include <mutex>

#include "backend/profiler/link.hpp"
#include "backend/profiler/transfer_load.hpp"
#include "tests/backend/nccl/ranks.hpp"

namespace penstock::profiler {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::Gt;

/// What each rank of so many says.
template <class Result, class Measure>
std::vector<Result> on_ranks(int size, const Measure& measure) {
  std::vector<Result> results;
  std::mutex mutex;
  const std::vector<LaneKey> lanes = size > 1 ? test::kBothWays : std::vector<LaneKey>{};
  test::FakeRanks(size, lanes).run([&](Communicator& communicator, test::FakeNccl&) {
    const Result result = measure(communicator);
    const std::scoped_lock lock(mutex);
    results.push_back(result);
  });
  return results;
}

TEST(GpuLink, IsMeasuredOverItsLanesAndKnownToAllRanks) {
  const auto links = on_ranks<std::vector<LinkCost>>(3, [](Communicator& communicator) {
    return measure_gpu_links(communicator, cpu_device(), 2000);
  });
  ASSERT_EQ(links.size(), 3u);
  EXPECT_EQ(links[0], links[1]);
  EXPECT_EQ(links[0], links[2]);
  ASSERT_EQ(links[0].size(), 1u);
  const LinkCost& link = links[0].front();
  EXPECT_EQ(link.kind, "nccl");
  ASSERT_EQ(link.samples.size(), 3u);  // 16, 128 and 1024 bytes
  EXPECT_EQ(link.samples.back().first, 1024);
  EXPECT_THAT(link.samples, Each(Field(&std::pair<int64_t, double>::second, Gt(0.0))));
  EXPECT_GE(link.sender_s_per_byte, 0);
  EXPECT_GE(link.receiver_s_per_byte, 0);
}

TEST(GpuLink, OneRankHasNone) {
  const auto links = on_ranks<std::vector<LinkCost>>(1, [](Communicator& communicator) {
    return measure_gpu_links(communicator, cpu_device(), 2000);
  });
  EXPECT_TRUE(links.at(0).empty());
}

TEST(TransferLoad, IsTheSameOnAllRanksAndNeverBelowZero) {
  const LinkCost slow{.latency_s = 1e-6, .bandwidth = 1e6};  // few bytes, so it takes no time here
  const auto loads = on_ranks<TransferLoad>(3, [&](Communicator& communicator) {
    return transfer_load(communicator, cpu_device(), slow, true);
  });
  ASSERT_EQ(loads.size(), 3u);
  for (const TransferLoad& load : loads) {
    EXPECT_GE(load.sender_s_per_byte, 0);
    EXPECT_EQ(load.sender_s_per_byte, loads[0].sender_s_per_byte);
    EXPECT_EQ(load.receiver_s_per_byte, loads[0].receiver_s_per_byte);
  }
}

}  // namespace
}  // namespace penstock::profiler
