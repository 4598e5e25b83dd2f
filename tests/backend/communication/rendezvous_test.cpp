// Ranks of threads over a TCP store: differing facts are named, clocks agree, reports arrive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <thread>

#include "backend/communication/cause.hpp"
#include "backend/communication/communicator.hpp"
#include "backend/communication/gloo.hpp"
#include "backend/communication/rendezvous.hpp"
#include "base/error.hpp"
#include "tests/backend/support.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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

TEST(Rendezvous, ADifferentFactIsNamedWithAllValuesOnEveryRank) {
  const auto messages = run_seats(4, [](const Seat& seat) {
    shake_hands(seat, {{"plan sha256", seat.rank == 2 ? "cd" : "ab"}, {"steps", "3"}});
  });
  for (const std::string& message : messages) {
    EXPECT_THAT(message, HasSubstr("plan sha256: ab on ranks 0, 1, 3; cd on rank 2"));
    EXPECT_THAT(message, Not(HasSubstr("steps")));
  }
}

TEST(Rendezvous, RanksThatAreNotNumberedMachineByMachineAreNamed) {
  const auto meet = [](std::vector<std::pair<int, int>> machines) {
    return run_seats(4, [machines = std::move(machines)](const Seat& seat) {
      shake_hands({seat.store, seat.rank, seat.size, machines[static_cast<size_t>(seat.rank)]}, {});
    });
  };
  EXPECT_THAT(meet({{0, 1}, {1, 3}, {1, 3}, {1, 3}}), ::testing::Each(IsEmpty()));
  // Ranks 0 and 2 on one machine, 1 and 3 on another.
  EXPECT_THAT(meet({{0, 2}, {1, 2}, {1, 2}, {2, 2}}),
              ::testing::Each(AllOf(HasSubstr("rank 0 is number 0 of 2 on its machine (from 0), "
                                              "but rank 1 is number 0 of 2 on its machine"),
                                    HasSubstr("machine by machine: mpirun --map-by slot"))));
}

TEST(Rendezvous, AFactThatOneRankLacksDiffers) {
  const auto messages = run_seats(2, [](const Seat& seat) {
    shake_hands(seat, seat.rank == 0 ? Facts{} : Facts{{"seed", "7"}});
  });
  EXPECT_THAT(messages[0], HasSubstr("seed: nothing on rank 0; 7 on rank 1"));
}

TEST(Rendezvous, RanksThatDoNotComeAreNamed) {
  StoreAddress address;
  address.serve = true;
  const auto store = open_tcp_store(address);
  std::thread other([&] {
    StoreAddress own{address.host, address.port, false, ""};
    const auto joined = open_tcp_store(own);
    const auto said = test::message_of<PeerError>([&] { shake_hands({*joined, 2, 6}, {}, 0.5); });
    EXPECT_THAT(said, HasSubstr("ranks 1, 3-5 of 6 did not come within 0.5 s"));
  });
  // Long enough for the other rank: all that comes late is named as missing.
  while (!store->get_within("handshake/2", 1)) {
  }
  const auto said = test::message_of<PeerError>([&] { shake_hands({*store, 0, 6}, {}, 0.5); });
  EXPECT_THAT(said, HasSubstr("ranks 1, 3-5 of 6 did not come within 0.5 s"));
  other.join();
}

TEST(Rendezvous, ARankThatRefusesEndsAllAtOnceThoughOthersNeverCome) {
  const auto messages = run_seats(3, [](const Seat& seat) {
    if (seat.rank == 1) return;  // never comes; nobody waits the ten minutes for it
    if (seat.rank == 2) return refuse_to_run(seat, "no such file");
    shake_hands(seat, {});
  });
  EXPECT_THAT(messages[0], HasSubstr("rank 2 refuses to run: no such file"));
}

/// The store as rank 0 sees it when rank 1 refuses just before rank 0 asks whether one does.
class RefusedWhenAsked : public SharedStore {
 public:
  void set(const std::string& key, const std::string& value) override { values_[key] = value; }
  void append(const std::string& key, const std::string& value) override { values_[key] += value; }
  std::string get(const std::string& key) override { return values_.at(key); }
  std::optional<std::string> get_within(const std::string& key, double) override {
    if (key == "handshake/refused") {
      set("handshake/1", R"({"refuses": "no such file"})");
      set("handshake/refused", "");
      set("handshake/heard/1", "");
    }
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::map<std::string, std::string> values_;
};

TEST(Rendezvous, ARankThatRefusesWhileOthersLookForItIsHeard) {
  RefusedWhenAsked store;
  EXPECT_THAT(test::message_of<InputError>([&] {
                shake_hands({store, 0, 2}, {});
              }),
              HasSubstr("rank 1 refuses to run: no such file"));
}

TEST(Rendezvous, ARankOfALargerRunIsToldSo) {
  const auto messages = run_seats(3, [](const Seat& seat) {
    if (seat.rank == 2) return shake_hands({seat.store, 2, 3}, {{"number of ranks", "3"}});
    shake_hands({seat.store, seat.rank, 2}, {{"number of ranks", "2"}});
  });
  EXPECT_THAT(messages[0], IsEmpty());
  EXPECT_THAT(messages[2], HasSubstr("number of ranks: 2 on rank 0; 3 on rank 2"));
}

/// The cause that every rank finds from its own error.
std::vector<WorkerError> find_causes(const std::vector<std::optional<WorkerError>>& errors) {
  std::vector<WorkerError> causes(errors.size());
  run_seats(static_cast<int>(errors.size()), [&](const Seat& seat) {
    // All begin together, so that none is late.
    seat.store.set("begin/" + std::to_string(seat.rank), "");
    for (int rank = 0; rank < seat.size; ++rank) seat.store.get("begin/" + std::to_string(rank));
    const auto& own = errors[static_cast<size_t>(seat.rank)];
    if (!own) return;
    // A rank that fails by itself says so before it goes, and only then others lose it.
    for (int rank = 0; own->kind == FailureKind::peer && rank < seat.size; ++rank) {
      const auto& other = errors[static_cast<size_t>(rank)];
      if (other && other->kind != FailureKind::peer) seat.store.get("told/" + std::to_string(rank));
    }
    causes[static_cast<size_t>(seat.rank)] = find_cause(seat, *own);
    seat.store.set("told/" + std::to_string(seat.rank), "");
  });
  return causes;
}

TEST(FindCause, TheErrorOfARankThatFailedByItselfReachesAll) {
  const auto causes =
      find_causes({WorkerError{FailureKind::peer, 0, 1, 3, "", "lost rank 1"},
                   WorkerError{FailureKind::peer, 1, 2, 3, "", "lost rank 2"},
                   WorkerError{FailureKind::failure, 2, -1, 3, "1F0", "no memory"}});
  EXPECT_THAT(causes[0].message, HasSubstr("rank 2 failed in step 4 at 1F0: no memory"));
  EXPECT_THAT(causes[1].message, HasSubstr("rank 2 failed in step 4 at 1F0: no memory"));
  EXPECT_EQ(causes[2].message, "no memory");
}

TEST(FindCause, ARankThatSaysNothingIsNamedByAll) {
  // 0 lost 1 since 1 lost 2, which was killed.
  const auto causes =
      find_causes({WorkerError{FailureKind::peer, 0, 1, 3, "", "lost rank 1"},
                   WorkerError{FailureKind::peer, 1, 2, 3, "", "lost rank 2"}, std::nullopt});
  EXPECT_EQ(causes[0].lost, 2);
  EXPECT_EQ(causes[1].lost, 2);
  EXPECT_THAT(causes[0].message, HasSubstr("rank 2 is gone without a word"));
}

TEST(FindCause, OfASumThatFailedTheOnlyRankThatSaysNothingIsNamed) {
  const auto causes =
      find_causes({WorkerError{FailureKind::peer, 0, -1, 3, "", "a sum failed"}, std::nullopt,
                   WorkerError{FailureKind::peer, 2, -1, 3, "", "a sum failed"}});
  EXPECT_EQ(causes[0].lost, 1);
  EXPECT_EQ(causes[2].lost, 1);
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
