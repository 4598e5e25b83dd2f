// Ranks of one machine: what only memory between them guarantees.
#include "backend/communication/local/local.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/backend/executor/ranks.hpp"

namespace penstock {
namespace {

TEST(Local, AnElementsSumDoesNotDependOnItsPlace) {
  // Rounded sums of three numbers depend on their order, which is the ranks' for each element.
  std::vector<at::Tensor> whole(3), apart(3);
  test::run_ranks(test::make_local_threads(3), [&](Communicator& rank) {
    const std::vector<int> all{0, 1, 2};
    const at::Tensor own = at::rand({1001}, at::make_generator<at::CPUGeneratorImpl>(rank.rank()));
    at::Tensor together = own.clone();
    rank.all_reduce(together, all);
    at::Tensor first = own.narrow(0, 0, 10).clone(), second = own.narrow(0, 10, 991).clone();
    rank.all_reduce(first, all);
    rank.all_reduce(second, all);
    whole[rank.rank()] = together;
    apart[rank.rank()] = at::cat({first, second});
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(whole[0].equal(apart[rank])) << rank;
}

TEST(Local, TheReceiverCopies) {
  test::run_ranks(test::make_local_threads(2),
                  [&](Communicator& rank) { EXPECT_TRUE(rank.receiver_copies(1 - rank.rank())); });
  test::run_ranks(test::make_gloo_threads(2),
                  [&](Communicator& rank) { EXPECT_FALSE(rank.receiver_copies(1 - rank.rank())); });
}

TEST(Local, AMessageOfAnotherSizeIsAMistake) {
  test::run_ranks(test::make_local_threads(2), [&](Communicator& rank) {
    const at::Tensor tensor = at::zeros({4});
    std::vector<std::unique_ptr<Transfer>> sends;
    for (const int size : {3, 5}) {
      if (rank.rank() == 0) {
        sends.push_back(rank.send({1, false}, tensor, size));
      } else {
        at::Tensor other = at::zeros({size});
        EXPECT_THROW(rank.receive({0, false}, other, size)->wait(), std::logic_error);
      }
    }
    rank.barrier();
  });
}

TEST(Local, ARankThatIsKnownToBeGoneIsNotWaitedFor) {
  // Rank 0 learns that rank 2 is gone while it sleeps for rank 1, which then sleeps for rank 0.
  test::run_ranks(test::make_local_threads(3), [](Communicator& rank) {
    if (rank.rank() == 2) return;
    at::Tensor word = at::zeros({1});
    if (rank.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      rank.send({0, false}, word, 0)->wait();
      rank.receive({0, false}, word, 1)->wait();
      return;
    }
    rank.receive({1, false}, word, 0)->wait();
    EXPECT_THROW(rank.receive({2, false}, word, 2)->wait(), PeerError);
    rank.send({1, false}, word, 1)->wait();
  });
}

}  // namespace
}  // namespace penstock
