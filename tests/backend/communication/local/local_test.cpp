// Ranks of one machine: what only memory between them guarantees.
#include "backend/communication/local/local.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

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
    at::Tensor tensor = at::zeros({4});
    if (rank.rank() == 0) {
      const auto sending = rank.send({1, false}, tensor, 0);
      rank.barrier();
    } else {
      at::Tensor larger = at::zeros({5});
      EXPECT_THROW(rank.receive({0, false}, larger, 0)->wait(), std::logic_error);
      rank.barrier();
    }
  });
}

}  // namespace
}  // namespace penstock
