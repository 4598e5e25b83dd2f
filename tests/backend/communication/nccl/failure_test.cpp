// Failures of the NCCL communicator, over a fake: a call fails or a peer is gone.
#include <gmock/gmock.h>

#include <exception>

#include "backend/communication/nccl/communicator.hpp"
#include "tests/backend/communication/nccl/ranks.hpp"

namespace penstock {
namespace {

using test::FakeNccl;
using test::FakeRanks;
using test::kBothWays;
using Status = NcclApi::Status;

struct Failure {
  const char* call;
  Status status;
};

class NcclFailure : public ::testing::TestWithParam<Failure> {};

INSTANTIATE_TEST_SUITE_P(
    Each, NcclFailure,
    ::testing::Values(Failure{"init", Status::peer_lost}, Failure{"init", Status::failed},
                      Failure{"send", Status::peer_lost}, Failure{"send", Status::failed},
                      Failure{"receive", Status::peer_lost}, Failure{"receive", Status::failed},
                      Failure{"all_reduce", Status::peer_lost},
                      Failure{"all_reduce", Status::failed}, Failure{"status", Status::peer_lost},
                      Failure{"status", Status::failed}),
    [](const auto& instance) {
      return std::string(instance.param.call) +
             (instance.param.status == Status::failed ? "_of_our_own" : "_of_the_peer");
    });

/// Runs every operation of a communicator and returns the error.
std::exception_ptr use_all(Communicator& rank, FakeNccl& api, const Failure& failure) {
  at::Tensor tensor = at::ones({4}), other = at::ones({4});
  try {
    const auto pending = rank.receive({1, true}, tensor, 0);  // nobody sends
    api.failing[failure.call] = failure.status;
    rank.send({1, false}, other, 0)->wait();
    rank.receive({1, true}, other, 1);
    rank.all_reduce(other, {0, 1});
    rank.synchronise();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

TEST_P(NcclFailure, EndsWhatIsUnderWayAndNamesThePeer) {
  FakeRanks ranks(2, kBothWays, FakeRanks::computes_on_device);
  const bool at_start = std::string(GetParam().call) == "init";
  if (at_start) ranks.api(0).failing["init"] = GetParam().status;
  std::exception_ptr thrown;
  ranks.run_lossy([&](const FakeRanks::Connect& connect, FakeNccl& api, int rank) {
    if (rank == 1) {
      if (at_start) return;
      const auto peer = connect();
      at::Tensor tensor = at::zeros({4});
      peer->all_reduce(tensor, {0, 1});
      ranks.meet();
      ranks.meet();  // it stays until rank 0 has failed
      return;
    }
    std::unique_ptr<Communicator> own;
    try {
      own = connect();
      at::Tensor tensor = at::zeros({4});
      own->all_reduce(tensor, {0, 1});
      ranks.meet();
      thrown = use_all(*own, api, GetParam());
    } catch (...) {
      thrown = std::current_exception();
    }
    EXPECT_EQ(api.running(), 0) << "something still spins";
    EXPECT_EQ(api.live_comms, 0);
    if (own) {
      EXPECT_THROW(own->send({1, false}, at::ones({4}), 2), PeerError);
    }
    if (!at_start) ranks.meet();
  });
  ASSERT_TRUE(thrown);
  try {
    std::rethrow_exception(thrown);
  } catch (const PeerError& error) {
    EXPECT_EQ(GetParam().status, Status::peer_lost);
    if (std::string(GetParam().call) != "all_reduce") {
      EXPECT_EQ(error.peer, 1);
    }
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the fake's reason"));
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(GetParam().status, Status::failed);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("lane "));
  }
  ranks.expect_no_handles(0);
}

TEST(NcclFailures, AllLanesEndTogether) {
  FakeRanks ranks(2, kBothWays, FakeRanks::computes_on_device);
  ranks.run_lossy([&](const FakeRanks::Connect& connect, FakeNccl& api, int rank) {
    const auto own = connect();
    ranks.meet();
    if (rank == 1) return;
    api.calls.clear();
    api.failing["send"] = Status::failed;
    EXPECT_THROW(own->send({1, false}, at::ones({1}), 0), std::runtime_error);
    EXPECT_THAT(api.calls, ::testing::ElementsAre("send 1 on 1", "abort 1", "abort 2"));
  });
}

TEST(NcclFailures, APeerThatIsGoneEndsAWaitOfTheHost) {
  FakeRanks ranks(2, kBothWays, FakeRanks::computes_on_device);
  ranks.run_lossy([&](const FakeRanks::Connect& connect, FakeNccl& api, int rank) {
    const auto own = connect();
    ranks.meet();
    if (rank == 1) return;  // without a word
    at::Tensor tensor = at::zeros({4});
    const auto receiving = own->receive({1, true}, tensor, 0);
    try {
      receiving->wait();
      own->synchronise();
      ADD_FAILURE() << "a message came from nobody";
    } catch (const PeerError& error) {
      EXPECT_EQ(error.peer, 1);
    }
    EXPECT_EQ(api.running(), 0);
  });
}

}  // namespace
}  // namespace penstock
