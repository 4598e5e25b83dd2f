// Guarantees of the NCCL communicator, over a fake of the calls that it makes.
#include "backend/communication/nccl/communicator.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.hpp"
#include "tests/backend/communication/nccl/ranks.hpp"
#include "tests/backend/executor/ranks.hpp"

namespace penstock {
namespace {

using test::FakeNccl;
using test::FakeRanks;
using test::kBothWays;

TEST(NcclCommunicator, MovesEveryTypeAsItsBytes) {
  FakeRanks ranks(2, kBothWays);
  ranks.run([](Communicator& rank, FakeNccl&) {
    const auto whole = at::arange(12, at::kLong).view({3, 4});
    for (const auto type : {at::kBool, at::kByte, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble,
                            at::kLong, at::kComplexFloat}) {
      const at::Tensor sent = type == at::kBool ? whole.remainder(3).eq(0) : whole.to(type);
      at::Tensor received = at::zeros({3, 4}, type);
      if (rank.rank() == 0) {
        rank.send({1, false}, sent, 0)->wait();
      } else {
        rank.receive({0, false}, received, 0)->wait();
        EXPECT_TRUE(received.equal(sent)) << type;
      }
      rank.barrier();
    }
  });
}

TEST(NcclCommunicator, LanesDoNotWaitForEachOther) {
  // Rank 0 posts the receive of a gradient before the send that the gradient depends on.
  FakeRanks ranks(2, kBothWays);
  ranks.run([](Communicator& rank, FakeNccl& api) {
    at::Tensor activation = at::full({4}, 3.0), gradient = at::zeros({4});
    if (rank.rank() == 0) {
      const auto receiving = rank.receive({1, true}, gradient, 1);
      rank.send({1, false}, activation, 0)->wait();
      receiving->wait();
      EXPECT_TRUE(gradient.equal(at::full({4}, 6.0)));
    } else {
      at::Tensor received = at::zeros({4});
      rank.receive({0, false}, received, 0)->wait();
      rank.send({0, true}, received * 2, 1)->wait();
    }
    // Each lane has a communicator and a stream; the first two messages are the bytes of the start.
    EXPECT_THAT(api.calls, ::testing::Contains(::testing::HasSubstr(" 1 on 1")));
    EXPECT_THAT(api.calls, ::testing::Contains(::testing::HasSubstr(" 2 on 2")));
    EXPECT_THAT(api.calls, ::testing::Not(::testing::Contains(::testing::HasSubstr(" 1 on 2"))));
    rank.barrier();
  });
}

TEST(NcclCommunicator, NothingMakesTheHostWait) {
  FakeRanks ranks(2, kBothWays, FakeRanks::computes_on_device);
  ranks.run([&](Communicator& rank, FakeNccl& api) {
    at::Tensor activation = at::full({4}, 3.0), gradient = at::zeros({4});
    rank.barrier();
    ranks.pause(true);
    rank.barrier();
    const int before = api.pauses;
    if (rank.rank() == 0) {
      const auto receiving = rank.receive({1, true}, gradient, 1);
      const auto sending = rank.send({1, false}, activation, 0);
      sending->wait();
      receiving->wait();
    } else {
      const auto receiving = rank.receive({0, false}, activation, 0);
      receiving->wait();
      rank.send({0, true}, activation, 1)->wait();
    }
    EXPECT_EQ(api.pauses, before);
    EXPECT_GT(api.running(), 0);
    rank.barrier();
    ranks.pause(false);
    rank.synchronise();  // this does wait
    EXPECT_EQ(api.running(), 0);
    rank.barrier();
  });
}

TEST(NcclCommunicator, ConnectsALaneWithAByteBeforeTheNextOne) {
  // In a ring every rank is in four lanes: if the order differed somewhere they would deadlock.
  std::vector<LaneKey> ring;
  for (int rank = 0; rank < 5; ++rank) {
    ring.push_back({rank, (rank + 1) % 5, false});
    ring.push_back({(rank + 1) % 5, rank, true});
  }
  FakeRanks ranks(5, ring);
  ranks.run([](Communicator&, FakeNccl& api) {
    ASSERT_EQ(api.calls.size(), 8U);
    for (size_t lane = 0; lane < 4; ++lane) {
      const std::string number = std::to_string(lane + 1);
      EXPECT_EQ(api.calls[2 * lane], "init " + number);
      EXPECT_THAT(api.calls[2 * lane + 1], ::testing::HasSubstr(" " + number + " on " + number));
    }
  });
  for (const LaneKey& lane : ring) EXPECT_TRUE(ranks.store().has("comm/" + to_string(lane)));
}

TEST(NcclCommunicator, SumsOverOverlappingGroups) {
  FakeRanks ranks(3, {});
  ranks.run([](Communicator& rank, FakeNccl&) {
    const double own = rank.rank() + 1;
    at::Tensor all = at::full({2}, own), some = at::full({3}, own);
    if (rank.rank() > 0) rank.all_reduce(some, {1, 2});
    rank.all_reduce(all, {0, 1, 2});
    EXPECT_TRUE(all.equal(at::full({2}, 6.0)));
    EXPECT_TRUE(some.equal(at::full({3}, rank.rank() > 0 ? 5.0 : 1.0)));
    rank.barrier();
  });
}

TEST(NcclCommunicator, SumsGoOnBesideTheHostInTheOrderInWhichTheyBegan) {
  FakeRanks ranks(2, {});
  ranks.run([](Communicator& rank, FakeNccl& api) {
    rank.connect_sums({0, 1});
    EXPECT_EQ(std::ranges::count(api.calls, "all_reduce 1 on 1"), 1);
    const at::Tensor few = at::full({2}, rank.rank() + 1.0);
    const at::Tensor many = at::full({3, 4}, rank.rank() + 2);
    const auto first = rank.start_all_reduce(few, {0, 1});
    const auto second = rank.start_all_reduce(many, {0, 1});
    second->wait();
    first->wait();
    EXPECT_TRUE(few.equal(at::full({2}, 3.0)));
    EXPECT_TRUE(many.equal(at::full({3, 4}, 5)));
    EXPECT_EQ(std::ranges::count(api.calls, "all_reduce 1 on 1"), 3);
    EXPECT_THROW(rank.start_all_reduce(many.t(), {0, 1}), c10::Error);
    rank.barrier();
  });
}

TEST(NcclCommunicator, HalvesOfASumAreInPlaceOnTheLaneOfTheSums) {
  FakeRanks ranks(3, {});
  ranks.run([](Communicator& rank, FakeNccl& api) {
    rank.connect_sums({0, 1, 2});
    const at::Tensor tensor = at::arange(6, at::kFloat) * (rank.rank() + 1.0);
    const auto scattered = rank.start_reduce_scatter(tensor, {0, 1, 2});
    const auto gathered = rank.start_all_gather(tensor, {0, 1, 2});
    scattered->wait();
    gathered->wait();
    EXPECT_TRUE(tensor.equal(at::arange(6, at::kFloat) * 6));
    EXPECT_EQ(std::ranges::count(api.calls, "reduce_scatter 1 on 1"), 1);
    EXPECT_EQ(std::ranges::count(api.calls, "all_gather 1 on 1"), 1);
    EXPECT_THROW(rank.start_all_gather(at::zeros({3, 4}).t(), {0, 1, 2}), c10::Error);
    rank.barrier();
  });
}

TEST(NcclCommunicator, AGroupsCollectivesAreOnTheComputingStreamOverItsOwnLane) {
  FakeRanks ranks(3, {});
  ranks.run([](Communicator& rank, FakeNccl& api) {
    const std::vector<int> all{0, 1, 2};
    const double own = rank.rank() + 1;
    rank.connect_sums(all);
    rank.connect_group(all);
    rank.connect_group(all);
    const at::Tensor sum = at::full({2}, own), part = at::full({3, 2}, own);
    const at::Tensor whole = at::full({3, 2}, rank.rank() == 1, at::kBool);
    const at::Tensor received = at::empty({3, 2});
    rank.all_reduce(sum, all);
    rank.reduce_scatter(part, all);
    rank.all_gather(whole, all);
    rank.all_to_all(at::arange(6, at::kFloat) * own, received, all);
    EXPECT_TRUE(sum.equal(at::full({2}, 6.0)));
    EXPECT_TRUE(part[rank.rank()].equal(at::full({2}, 6.0)));
    EXPECT_TRUE(whole.equal(at::tensor({0, 1, 0}).to(at::kBool).unsqueeze(1).expand({3, 2})));
    const at::Tensor first = at::tensor({0.0, 1.0}) + 2 * rank.rank();
    EXPECT_TRUE(received.equal(at::stack({first, first * 2, first * 3}).to(at::kFloat)));
    for (const char* call :
         {"all_reduce 2 on 0", "reduce_scatter 2 on 0", "all_gather 2 on 0", "all_to_all 2 on 0"})
      EXPECT_EQ(std::ranges::count(api.calls, call), 2) << "the first connects";
    EXPECT_EQ(std::ranges::count(api.calls, "init 2"), 1);
    EXPECT_EQ(api.live_streams, 1) << "the sums'";
    rank.barrier();
  });
}

TEST(NcclCommunicator, AGroupWaitsForNoSumThatGoesOnBeside) {
  FakeRanks ranks(2, {});
  ranks.run([](Communicator& rank, FakeNccl&) {
    const std::vector<int> both{0, 1};
    rank.connect_sums(both);
    rank.connect_group(both);
    const at::Tensor beside = at::ones({2}), sum = at::ones({3});
    std::unique_ptr<Transfer> sums;
    if (rank.rank() == 0) sums = rank.start_all_reduce(beside, both);
    rank.all_reduce(sum, both);
    if (rank.rank() == 1) sums = rank.start_all_reduce(beside, both);
    sums->wait();
    EXPECT_TRUE(beside.equal(at::full({2}, 2.0)));
    EXPECT_TRUE(sum.equal(at::full({3}, 2.0)));
    rank.barrier();
  });
}

TEST(NcclCommunicator, AMessageOfAnotherLaneIsRefused) {
  FakeRanks ranks(2, kBothWays);
  ranks.run([](Communicator& rank, FakeNccl&) {
    rank.barrier();
    if (rank.rank() == 0) {
      EXPECT_THROW(rank.send({1, true}, at::zeros({1}), 0), c10::Error);
    }
  });
}

TEST(NcclCommunicator, LeavesNoHandleBehind) {
  FakeRanks ranks(3, {{0, 1, false}, {1, 2, false}, {2, 1, true}, {1, 0, true}});
  ranks.run([](Communicator& rank, FakeNccl& api) {
    at::Tensor tensor = at::ones({2});
    rank.all_reduce(tensor, {0, 1, 2});
    if (rank.rank() == 0) rank.send({1, false}, tensor, 0)->wait();
    if (rank.rank() == 1) rank.receive({0, false}, tensor, 0)->wait();
    EXPECT_GT(api.live_events, 0);
    EXPECT_GT(api.live_comms, 1);
    rank.barrier();
  });
  for (int rank = 0; rank < 3; ++rank) ranks.expect_no_handles(rank);
}

/// A single rank, whose peer has left an id and nothing else.
class Alone {
 public:
  explicit Alone(double pause_s) : api(std::make_shared<test::FakeWorld>(), false) {
    api.pause_s = pause_s;
    store.set("comm/1-0-gradients", "id of rank 1");
  }
  std::unique_ptr<Communicator> connect(const std::vector<LaneKey>& lanes) {
    NcclOptions options;
    options.deadline_s = 30;
    host = make_in_process(2);
    return make_nccl(api, store, std::move(host[0]), lanes, options);
  }
  FakeNccl api;
  test::MemoryStore store;
  test::Communicators host;
};

TEST(NcclCommunicator, APeerThatDoesNotComeIsNamedAfterTheDeadline) {
  for (const LaneKey& lane : kBothWays) {
    Alone alone(1);
    try {
      alone.connect({lane});
      ADD_FAILURE() << "connected to nobody";
    } catch (const PeerError& error) {
      EXPECT_EQ(error.peer, 1);
      EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr(to_string(lane)),
                                                 ::testing::HasSubstr("rank 1 did not come")));
    }
    EXPECT_EQ(alone.api.pauses, 31);  // a second each
    EXPECT_EQ(alone.api.live_comms + alone.api.live_streams + alone.api.live_events, 0);
  }
}

// Rank 1 sends only when rank 0 has reported, after more than a minute by its clock, that it waits.
TEST(NcclCommunicator, AHostThatWaitsForLongSaysWhatIsUnderWay) {
  FakeRanks ranks(2, kBothWays, FakeRanks::computes_on_device);
  std::string said;
  ranks.on_stall = [&](const std::string& text) {
    if (!said.empty()) return;
    said = text;
    ranks.api(0).pause_s = 0;  // from now on it waits for what happens
    ranks.meet();
  };
  ranks.run([&](Communicator& own, FakeNccl& api) {
    at::Tensor tensor = at::ones({2});
    if (own.rank() == 1) {
      ranks.meet();
      own.send({0, true}, tensor, 0)->wait();
      own.synchronise();
      return;
    }
    const auto receiving = own.receive({1, true}, tensor, 0);
    receiving->wait();
    api.pause_s = 10;
    own.synchronise();
  });
  EXPECT_EQ(said, "has waited 70 s for its GPU; under way: 1-0-gradients");
}

TEST(NcclCommunicator, TooManyLanesForAGpuAreAMistake) {
  std::vector<LaneKey> lanes;
  for (int peer = 1; peer < 30; ++peer) lanes.push_back({0, peer, false});
  Alone alone(1);
  EXPECT_THROW(alone.connect(lanes), InputError);
}

}  // namespace
}  // namespace penstock
