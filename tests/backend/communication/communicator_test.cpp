// Guarantees of every communicator, for threads of one process and for Gloo's sockets.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "tests/backend/executor/ranks.hpp"

namespace penstock {
namespace {

using test::Communicators;

struct Transport {
  const char* name;
  Communicators (*make)(int);
};

class CommunicatorTest : public ::testing::TestWithParam<Transport> {
 protected:
  void run(int size, const std::function<void(Communicator&)>& body) {
    test::run_ranks(GetParam().make(size), body);
  }
};

INSTANTIATE_TEST_SUITE_P(All, CommunicatorTest,
                         ::testing::Values(Transport{"in_process", make_in_process},
                                           Transport{"gloo", test::make_gloo_threads},
                                           Transport{"local", test::make_local_threads}),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(CommunicatorTest, MatchesByTagWhateverTheOrder) {
  run(2, [](Communicator& rank) {
    if (rank.rank() == 0) {
      const at::Tensor first = at::full({3}, 1.0), second = at::full({5}, 2.0);
      const auto one = rank.send({1, false}, first, 10);
      const auto two = rank.send({1, false}, second, 12);
      one->wait();
      two->wait();
    } else {
      at::Tensor first = at::empty({3}), second = at::empty({5});
      const auto two = rank.receive({0, false}, second, 12);
      const auto one = rank.receive({0, false}, first, 10);
      two->wait();
      one->wait();
      EXPECT_TRUE(first.equal(at::full({3}, 1.0)));
      EXPECT_TRUE(second.equal(at::full({5}, 2.0)));
    }
  });
}

TEST_P(CommunicatorTest, SendsDoNotWaitForTheReceiver) {
  // Both send before either receives: it would hang if a send waited.
  run(2, [](Communicator& rank) {
    const int peer = 1 - rank.rank();
    const at::Tensor sent = at::full({1 << 20}, rank.rank(), at::kLong);
    const auto sending = rank.send({peer, false}, sent, 0);
    at::Tensor received = at::empty({1 << 20}, at::kLong);
    rank.receive({peer, false}, received, 0)->wait();
    sending->wait();
    EXPECT_TRUE(received.eq(peer).all().item<bool>());
  });
}

TEST_P(CommunicatorTest, CarriesEveryDtypeBitForBit) {
  for (const auto type : {at::kBool, at::kByte, at::kInt, at::kLong, at::kHalf, at::kBFloat16,
                          at::kFloat, at::kDouble}) {
    run(2, [type](Communicator& rank) {
      at::Tensor tensor = at::arange(7, at::kLong).remainder(2).to(type);
      if (rank.rank() == 0) {
        rank.send({1, true}, tensor, 3)->wait();
      } else {
        at::Tensor received = at::empty({7}, type);
        rank.receive({0, true}, received, 3)->wait();
        EXPECT_TRUE(received.equal(tensor)) << type;
      }
    });
  }
}

TEST_P(CommunicatorTest, SumsAreEqualBitForBitOnAllRanks) {
  std::vector<at::Tensor> sums(3);
  run(3, [&](Communicator& rank) {
    at::Tensor tensor = at::full({1000}, 0.1 + rank.rank() / 3.0);
    rank.all_reduce(tensor, {0, 1, 2});
    sums[rank.rank()] = tensor;
  });
  // 0.1 + 0.1 + 1/3 + 0.1 + 2/3, each rounding of float32 at most 2^-24 of 1.3, three additions
  EXPECT_TRUE(sums[0].allclose(at::full({1000}, 1.3), 0, 3 * 1.3 / (1 << 24) * 2));
  EXPECT_TRUE(sums[0].equal(sums[1]));
  EXPECT_TRUE(sums[0].equal(sums[2]));
}

TEST_P(CommunicatorTest, SumsGoOnBesideOneAnother) {
  run(3, [](Communicator& rank) {
    rank.connect_sums({0, 1, 2});
    std::vector<at::Tensor> tensors;
    std::vector<std::unique_ptr<Transfer>> sums;
    for (int i = 0; i < 4; ++i) {
      tensors.push_back(at::full({1000}, rank.rank() + 10.0 * i, at::kDouble));
      sums.push_back(rank.start_all_reduce(tensors.back(), {0, 1, 2}));
    }
    for (auto sum = sums.rbegin(); sum != sums.rend(); ++sum) (*sum)->wait();
    for (int i = 0; i < 4; ++i)
      EXPECT_TRUE(tensors[i].equal(at::full({1000}, 3 + 30.0 * i, at::kDouble))) << i;
  });
}

TEST_P(CommunicatorTest, OverlappingGroupsInOneOrder) {
  run(3, [](Communicator& rank) {
    const auto sum = [&](const std::vector<int>& ranks) {
      if (std::count(ranks.begin(), ranks.end(), rank.rank()) == 0) return 0.0;
      at::Tensor tensor = at::full({1}, rank.rank() + 1, at::kDouble);
      rank.all_reduce(tensor, ranks);
      return tensor.item<double>();
    };
    const double a = sum({0, 2}), b = sum({1, 2}), c = sum({0, 1}), d = sum({0, 2});
    const std::vector<std::vector<double>> expected{{4, 0, 3, 4}, {0, 5, 3, 0}, {4, 5, 0, 4}};
    EXPECT_EQ((std::vector<double>{a, b, c, d}), expected[rank.rank()]);
  });
}

TEST_P(CommunicatorTest, NobodyLeavesABarrierBeforeAllCame) {
  std::atomic<int> came = 0;
  run(3, [&](Communicator& rank) {
    for (int round = 1; round <= 5; ++round) {
      ++came;
      rank.barrier();
      EXPECT_GE(came.load(), 3 * round);
      rank.barrier();
    }
  });
}

TEST_P(CommunicatorTest, TakesThousandsOfMessagesBeforeAnyIsReceived) {
  constexpr int count = 3000;  // more than a ring of offers has places
  run(2, [](Communicator& rank) {
    const int peer = 1 - rank.rank();
    std::vector<at::Tensor> tensors;
    std::vector<std::unique_ptr<Transfer>> sends;
    for (int i = 0; i < count; ++i) {
      tensors.push_back(at::full({2}, i, at::kLong));
      sends.push_back(rank.send({peer, false}, tensors.back(), i));
    }
    for (int i = 0; i < count; ++i) {
      at::Tensor received = at::empty({2}, at::kLong);
      rank.receive({peer, false}, received, i)->wait();
      ASSERT_TRUE(received.eq(i).all().item<bool>()) << i;
    }
    for (const auto& send : sends) send->wait();
  });
}

TEST_P(CommunicatorTest, SumsOfAnySizeAndLayout) {
  for (const int64_t size : {0, 1, 2, 3, 1000, 300001}) {
    run(3, [size](Communicator& rank) {
      at::Tensor tensor = at::arange(size, at::kDouble) * (rank.rank() + 1);
      rank.all_reduce(tensor, {0, 1, 2});
      EXPECT_TRUE(tensor.equal(at::arange(size, at::kDouble) * 6)) << size;
    });
  }
}

at::Tensor part_of(const at::Tensor& tensor, int64_t parts, int64_t part) {
  return tensor.view({parts, -1})[part];
}

TEST_P(CommunicatorTest, TheHalvesOfASumHaveItsBits) {
  for (const int64_t size : {3, 3000, 300000}) {
    run(3, [size](Communicator& rank) {
      // Two others have the same bits in any order, a third one only where these are added first.
      at::Tensor whole = at::full({size}, rank.rank() == 2 ? 0.1F : 1.0F / 3);
      const at::Tensor halves = whole.clone();
      rank.all_reduce(whole, {0, 1, 2});
      rank.start_reduce_scatter(halves, {0, 1, 2})->wait();
      EXPECT_TRUE(part_of(halves, 3, rank.rank()).equal(part_of(whole, 3, rank.rank()))) << size;
      for (const int other : {0, 1, 2}) {
        if (other != rank.rank()) part_of(halves, 3, other).zero_();
      }
      rank.start_all_gather(halves, {0, 1, 2})->wait();
      EXPECT_TRUE(halves.equal(whole)) << size;
    });
  }
}

TEST_P(CommunicatorTest, EachPartGoesToItsRankAgainAndAgain) {
  run(4, [](Communicator& rank) {
    if (rank.rank() == 1) return;
    const std::vector<int> ranks{0, 2, 3};
    rank.connect_group(ranks);
    for (int round = 0; round < 3; ++round) {
      const at::Tensor to = at::arange(3, at::kLong).unsqueeze(1).expand({3, 1000});
      const at::Tensor sent = (to + 10 * rank.rank() + 100 * round).contiguous();
      const at::Tensor received = at::empty_like(sent);
      rank.all_to_all(sent, received, ranks);
      const auto own = std::ranges::find(ranks, rank.rank()) - ranks.begin();
      const at::Tensor from = at::tensor({0, 20, 30}).unsqueeze(1).expand({3, 1000});
      EXPECT_TRUE(received.equal(from + own + 100 * round));
    }
  });
}

TEST_P(CommunicatorTest, HalvesGoOnBesideOneAnotherAndSums) {
  run(3, [](Communicator& rank) {
    if (rank.rank() == 0) return;
    const int place = rank.rank() - 1;
    const at::Tensor gathered = at::full({2, 1000}, rank.rank(), at::kLong);
    const at::Tensor more = at::full({4}, 10 + rank.rank(), at::kLong);
    const at::Tensor scattered = at::arange(2000, at::kLong), sum = at::ones({7}, at::kLong);
    const auto one = rank.start_all_gather(gathered, {1, 2});
    const auto two = rank.start_reduce_scatter(scattered, {1, 2});
    const auto three = rank.start_all_gather(more, {1, 2});
    const auto four = rank.start_all_reduce(sum, {1, 2});
    for (const auto* transfer : {&four, &two, &three, &one}) (*transfer)->wait();
    EXPECT_TRUE(gathered.equal(at::arange(1, 3, at::kLong).unsqueeze(1).expand({2, 1000})));
    EXPECT_TRUE(more.equal(at::tensor({11, 11, 12, 12}, at::kLong)));
    EXPECT_TRUE(
        part_of(scattered, 2, place).equal(part_of(2 * at::arange(2000, at::kLong), 2, place)));
    EXPECT_TRUE(sum.eq(2).all().item<bool>());
  });
}

TEST_P(CommunicatorTest, MessagesAndSumsDoNotMix) {
  run(3, [](Communicator& rank) {
    const int right = (rank.rank() + 1) % 3, left = (rank.rank() + 2) % 3;
    for (int round = 0; round < 20; ++round) {
      const at::Tensor sent = at::full({100}, rank.rank() + round, at::kLong);
      const auto sending = rank.send({right, false}, sent, 0);
      at::Tensor sum = at::full({7}, rank.rank(), at::kLong);
      rank.all_reduce(sum, {0, 1, 2});
      at::Tensor received = at::empty({100}, at::kLong);
      rank.receive({left, false}, received, 0)->wait();
      sending->wait();
      EXPECT_TRUE(sum.eq(3).all().item<bool>());
      EXPECT_TRUE(received.eq(left + round).all().item<bool>());
    }
  });
}

TEST_P(CommunicatorTest, ALostPeerIsNamed) {
  run(2, [](Communicator& rank) {
    if (rank.rank() == 1) return;  // gone
    at::Tensor tensor = at::empty({4});
    try {
      rank.receive({1, false}, tensor, 0)->wait();
      ADD_FAILURE() << "received from a rank that sent nothing";
    } catch (const PeerError& error) {
      EXPECT_EQ(error.peer, 1);
      EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
    }
  });
}

}  // namespace
}  // namespace penstock
