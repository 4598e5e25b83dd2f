// Ranks of threads over a TCP store: differing facts are named, clocks agree, reports arrive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "backend/gloo.hpp"
#include "backend/rendezvous.hpp"
#include "graph/error.hpp"
#include "tests/backend/support.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Runs `body` as every rank; returns each rank's InputError message, "" for none.
std::vector<std::string> run_seats(int size, const std::function<void(const Seat&)>& body) {
  StoreAddress address;
  address.serve = true;
  const auto first = open_tcp_store(address);
  std::vector<std::string> messages(size);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      StoreAddress own{address.host, address.port, false, ""};
      const auto store = open_tcp_store(own);
      messages[rank] = test::message_of<InputError>([&] { body({*store, rank, size}); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return messages;
}

TEST(Rendezvous, EqualFactsShakeHands) {
  EXPECT_THAT(run_seats(3,
                        [](const Seat& seat) {
                          shake_hands(seat, {{"plan sha256", "ab"}});
                        }),
              ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
}

TEST(Rendezvous, ADifferentFactIsNamedWithBothValues) {
  const auto messages = run_seats(3, [](const Seat& seat) {
    shake_hands(seat, {{"plan sha256", seat.rank == 2 ? "cd" : "ab"}, {"world size", "3"}});
  });
  EXPECT_THAT(messages[0], HasSubstr("rank 0 has plan sha256 ab, rank 2 has cd"));
  EXPECT_THAT(messages[1], IsEmpty());
  EXPECT_THAT(messages[2], HasSubstr("rank 0 has plan sha256 ab, rank 2 has cd"));
}

TEST(Rendezvous, OneClockHasNoOffset) {
  run_seats(3, [](const Seat& seat) { EXPECT_EQ(clock_offset_s(seat), 0); });
}

TEST(Rendezvous, GathersInOrderOfRank) {
  run_seats(3, [](const Seat& seat) {
    const auto values = gather(seat, "name", "rank " + std::to_string(seat.rank));
    if (seat.rank == 0) {
      EXPECT_THAT(values, ElementsAre("rank 0", "rank 1", "rank 2"));
    } else {
      EXPECT_THAT(values, IsEmpty());
    }
  });
}

}  // namespace
}  // namespace penstock
