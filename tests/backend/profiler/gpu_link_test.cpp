// The link of GPUs through NCCL's lanes, on a fake of NCCL that moves real tensors between threads.
#include <gmock/gmock.h>

#include <algorithm>
#include <mutex>

#include "backend/profiler/links/link.hpp"
#include "backend/profiler/links/transfer_load.hpp"
#include "tests/backend/communication/nccl/ranks.hpp"
#include "tests/backend/profiler/scripted_device.hpp"

namespace penstock::profiler {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::Gt;

/// The result of `body` on each of a number of ranks.
template <class Result, class Measure>
std::vector<Result> on_ranks(int size, const Measure& measure) {
  std::vector<Result> results;
  std::mutex mutex;
  const std::vector<LaneKey> lanes = size > 1 ? test::kBothWays : std::vector<LaneKey>{};
  test::FakeRanks(size, lanes).run([&](Communicator& communicator, test::FakeNccl& api) {
    const Result result = measure(communicator, api);
    const std::scoped_lock lock(mutex);
    results.push_back(result);
  });
  return results;
}

TEST(GpuLink, IsMeasuredOverItsLanesAndKnownToAllRanks) {
  const auto links =
      on_ranks<std::vector<LinkCost>>(3, [](Communicator& communicator, test::FakeNccl&) {
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
}

TEST(GpuLink, OneRankHasNone) {
  const auto links =
      on_ranks<std::vector<LinkCost>>(1, [](Communicator& communicator, test::FakeNccl&) {
        return measure_gpu_links(communicator, cpu_device(), 2000);
      });
  EXPECT_TRUE(links.at(0).empty());
}

/// A device on which compute takes a second for every send of its rank, and next to nothing else.
class SlowedBySends : public test::ScriptedDevice {
 public:
  explicit SlowedBySends(test::FakeNccl& api) : api_(api) {}
  std::unique_ptr<Marks> make_marks() override { return std::make_unique<SendMarks>(api_); }

 private:
  class SendMarks : public Marks {
   public:
    explicit SendMarks(test::FakeNccl& api) : api_(api) {}
    void mark() override {
      const auto sends = std::ranges::count_if(
          api_.calls, [](const std::string& call) { return call.starts_with("send"); });
      times_.push_back(static_cast<double>(sends) +
                       1.0 / 1024 * static_cast<double>(times_.size()));
    }
    std::vector<double> times() override { return std::exchange(times_, {}); }

   private:
    test::FakeNccl& api_;
    std::vector<double> times_;
  };
  test::FakeNccl& api_;
};

// Eight messages of an eighth of 50 ms each, in whole floats: 8 s by 8 x 6248 bytes, to the sender
// alone.
TEST(TransferLoad, IsWhatComputingTakesLongerByTheByteForEachOfTheTwo) {
  const LinkCost slow{.latency_s = 1e-6, .bandwidth = 1e6};
  const auto loads =
      on_ranks<TransferLoad>(3, [&](Communicator& communicator, test::FakeNccl& api) {
        SlowedBySends device(api);
        return transfer_load(communicator, device, slow, true);
      });
  ASSERT_EQ(loads.size(), 3u);
  for (const TransferLoad& load : loads) {
    EXPECT_DOUBLE_EQ(load.sender_s_per_byte, 1.0 / 6248);
    EXPECT_EQ(load.receiver_s_per_byte, 0);
  }
}

}  // namespace
}  // namespace penstock::profiler
