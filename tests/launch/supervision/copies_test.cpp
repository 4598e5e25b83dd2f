// A copy of a snapshot arrives whole at another supervisor, or not at all; the two latest of a rank
// stay.
#include "launch/supervision/copies.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <fstream>
#include <future>
#include <string>

#include "base/file.hpp"
#include "launch/supervision/checksum.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

/// A supervisor that takes in what is sent to it.
class Receiver {
 public:
  Receiver() { signal(SIGPIPE, SIG_IGN); }
  /// The error that `sending` threw, or "".
  template <typename Sending>
  std::string during(const Sending& sending) {
    std::future<void> sent = std::async(std::launch::async, sending);
    while (sent.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
      fleet.receive([](auto&&...) {}, [](int) {},
                    [&](int socket, const auto& greeting) { copies.receive(socket, greeting); });
    try {
      sent.get();
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  std::string send(const CopyOf& what, const SnapshotSlot& slot) {
    return during([&, to = fleet.addresses().at(0)] { send_copy(to, what, slot, {}); });
  }

  Fleet fleet{0};
  Copies copies;
};

struct Snapshot {
  SnapshotSlot slot;
  uint64_t checksum = 0;
  explicit Snapshot(const std::string& bytes) {
    std::ofstream(slot.file()) << bytes;
    checksum = slot.checksum();
  }
};

std::string bytes_of(const Copies::Copy& copy) { return read_file(copy.slot.file()); }

TEST(Copies, ArriveWholeAndTheTwoLatestStay) {
  Receiver receiver;
  for (int64_t step = 1; step <= 4; ++step) {
    const Snapshot snapshot(std::string(1'000'000, static_cast<char>('0' + step)));
    EXPECT_EQ(receiver.send({2, step, snapshot.checksum}, snapshot.slot), "");
    EXPECT_EQ(receiver.send({3, step, snapshot.checksum}, snapshot.slot), "");
  }
  EXPECT_EQ(receiver.copies.find(2, 2), nullptr);
  ASSERT_NE(receiver.copies.find(2, 3), nullptr);
  const auto taken = receiver.copies.take(2, 4);
  ASSERT_TRUE(taken);
  EXPECT_EQ(bytes_of(*taken), std::string(1'000'000, '4'));
  EXPECT_EQ(taken->slot.checksum(), taken->checksum);
  EXPECT_FALSE(receiver.copies.take(2, 4));
  EXPECT_EQ(bytes_of(*receiver.copies.find(3, 4)), std::string(1'000'000, '4'));
  receiver.copies.forget_after(3);
  EXPECT_EQ(receiver.copies.find(3, 4), nullptr);
  EXPECT_NE(receiver.copies.find(3, 3), nullptr);
  receiver.copies.forget(3, 3);
  EXPECT_EQ(receiver.copies.find(3, 3), nullptr);
}

TEST(Copies, OfRanksThatOthersKeepAreGivenBack) {
  Receiver receiver;
  const Snapshot snapshot("state");
  for (const int rank : {1, 2}) {
    EXPECT_EQ(receiver.send({rank, 7, snapshot.checksum}, snapshot.slot), "");
  }
  receiver.copies.keep_only({2});
  EXPECT_EQ(receiver.copies.find(1, 7), nullptr);
  EXPECT_NE(receiver.copies.find(2, 7), nullptr);
  EXPECT_EQ(receiver.send({1, 8, snapshot.checksum}, snapshot.slot), "");
  EXPECT_EQ(bytes_of(*receiver.copies.find(1, 8)), "state");
}

TEST(Copies, ThatAreThereAreNotSentAgain) {
  Receiver receiver;
  Snapshot snapshot("state");
  EXPECT_EQ(receiver.send({0, 7, snapshot.checksum}, snapshot.slot), "");
  std::ofstream(snapshot.slot.file()) << "other";
  EXPECT_EQ(receiver.send({0, 7, snapshot.checksum}, snapshot.slot), "");
  EXPECT_EQ(bytes_of(*receiver.copies.find(0, 7)), "state");
  const Snapshot other("other");
  EXPECT_EQ(receiver.send({0, 7, other.checksum}, other.slot), "");
  EXPECT_EQ(bytes_of(*receiver.copies.find(0, 7)), "other");
}

TEST(Copies, ThatAreDamagedOnTheirWayAreNone) {
  Receiver receiver;
  const Snapshot before("before"), snapshot("state");
  EXPECT_EQ(receiver.send({1, 6, before.checksum}, before.slot), "");
  EXPECT_THAT(receiver.send({1, 7, snapshot.checksum + 1}, snapshot.slot),
              HasSubstr("rank 1's snapshot arrived damaged"));
  EXPECT_EQ(receiver.copies.find(1, 7), nullptr);
  EXPECT_NE(receiver.copies.find(1, 6), nullptr);
}

TEST(Copies, ToASupervisorThatIsGoneFailWithTheReason) {
  FleetAddress nobody;
  {
    const Fleet gone(0);
    nobody = gone.addresses().at(0);
  }
  const Snapshot snapshot("state");
  EXPECT_THROW(send_copy(nobody, {0, 1, snapshot.checksum}, snapshot.slot, {}), std::runtime_error);
}

/// Nobody hears the greeting.
TEST(Copies, AreGivenUpOnceAsked) {
  const Fleet deaf(0);
  const Snapshot snapshot("state");
  std::stop_source stop;
  std::future<void> sent = std::async(std::launch::async, [&] {
    send_copy(deaf.addresses().at(0), {0, 1, snapshot.checksum}, snapshot.slot, stop.get_token());
  });
  stop.request_stop();
  EXPECT_THROW(sent.get(), std::runtime_error);
}

}  // namespace
}  // namespace penstock
