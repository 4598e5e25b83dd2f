// Supervisors find the one that leads, hear each other in order, and learn who is gone; strangers,
// who do not know their token, are not heard.
#include "launch/supervision/fleet.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/supervision/sockets.hpp"

namespace penstock {
namespace {

/// Everything that a supervisor hears, as `process: message`, or `process is gone`.
class Ear {
 public:
  explicit Ear(Fleet& fleet) : fleet_(fleet) {}
  /// The next; only what really hangs waits the whole minute.
  std::string next() {
    while (at_ == heard_.size()) {
      pollfd watched{fleet_.descriptor(), POLLIN, 0};
      if (poll(&watched, 1, 60'000) <= 0) return "nothing";
      fleet_.receive(
          [&](int process, const Fleet::Message& message) {
            heard_.push_back(std::to_string(process) + ": " + message.dump());
          },
          [&](int process) { heard_.push_back(std::to_string(process) + " is gone"); },
          [&](int socket, const Fleet::Message& greeting) {
            close(socket);
            heard_.push_back("a guest for rank " + greeting.at("rank").dump());
          });
    }
    return heard_[at_++];
  }

 private:
  Fleet& fleet_;
  std::vector<std::string> heard_;
  size_t at_ = 0;
};

FleetAddress address_of(const Fleet& leader) {
  FleetAddress address = leader.address();
  address.host = "127.0.0.1";
  return address;
}

TEST(Fleet, TellsTheLeaderAndHearsItInOrderUntilEitherIsGone) {
  std::optional<Fleet> leader(0), member(2);
  EXPECT_TRUE(leader->leads() && !member->leads() && !member->has_joined());
  member->join(address_of(*leader));
  EXPECT_TRUE(member->has_joined());
  Ear at_leader(*leader);
  for (int i = 0; i < 50; ++i) member->send({{"number", i}, {"text", std::string(1000, 'x')}});
  const std::string text = R"(,"text":")" + std::string(1000, 'x') + "\"}";
  for (int i = 0; i < 50; ++i)
    ASSERT_EQ(at_leader.next(), R"(2: {"number":)" + std::to_string(i) + text);
  Ear at_member(*member);
  leader->send({{"to", "all"}});
  leader->send(2, {{"to", 2}});
  leader->send(1, {{"to", "nobody"}});
  EXPECT_EQ(at_member.next(), R"(0: {"to":"all"})");
  EXPECT_EQ(at_member.next(), R"(0: {"to":2})");
  member->send({{"last", "word"}});
  member.reset();
  EXPECT_EQ(at_leader.next(), R"(2: {"last":"word"})");
  EXPECT_EQ(at_leader.next(), "2 is gone");
  leader->send({{"to", "nobody"}});  // harms none
}

TEST(Fleet, LearnsThatTheLeaderIsGone) {
  std::optional<Fleet> leader(0);
  Fleet member(1);
  member.join(address_of(*leader));
  member.send({{"a", "word"}});
  EXPECT_EQ(Ear(*leader).next(), R"(1: {"a":"word"})");
  leader.reset();
  EXPECT_EQ(Ear(member).next(), "0 is gone");
}

TEST(Fleet, IsLedByAnotherWhereTheLeaderIsGone) {
  std::optional<Fleet> leader(0);
  Fleet next(1), member(2);
  for (Fleet* one : {&next, &member}) {
    one->join(address_of(*leader));
    one->send({{"a", "word"}});
  }
  Ear at_leader(*leader);
  at_leader.next();
  at_leader.next();
  member.learn(1, leader->addresses().at(1));
  leader.reset();
  Ear at_next(next), at_member(member);
  EXPECT_EQ(at_next.next(), "0 is gone");
  EXPECT_EQ(at_member.next(), "0 is gone");
  next.lead();
  member.join(member.addresses().at(1), 1);
  EXPECT_TRUE(next.leads() && !member.leads());
  EXPECT_EQ(member.leader(), 1);
  member.send({{"to", "next"}});
  EXPECT_EQ(at_next.next(), R"(2: {"to":"next"})");
  next.send(2, {{"to", 2}});
  EXPECT_EQ(at_member.next(), R"(1: {"to":2})");
}

TEST(Fleet, TellsWhereOthersAreAndHandsTheirGuestsOver) {
  Fleet leader(0), member(1);
  member.join(address_of(leader));
  member.send({{"a", "word"}});
  EXPECT_EQ(Ear(leader).next(), R"(1: {"a":"word"})");
  for (const auto& [process, fleet] : {std::pair{1, &member}, std::pair{0, &leader}}) {
    const FleetAddress& place = leader.addresses().at(process);
    EXPECT_EQ(place.token, member.addresses().at(process).token);
    const int guest = connect_to(place.host, place.port);
    ASSERT_GE(guest, 0);
    send_line(guest, {{"token", place.token}, {"rank", process}});
    EXPECT_EQ(Ear(*fleet).next(), "a guest for rank " + std::to_string(process));
    close(guest);
  }
}

TEST(Fleet, SaysWhereNobodyAnswers) {
  FleetAddress address;
  {
    const Fleet leader(0);
    address = address_of(leader);
  }
  Fleet member(1);
  EXPECT_THROW(member.join(address), std::runtime_error);
  EXPECT_FALSE(member.has_joined());
}

/// A stranger's bytes have its connection closed.
void expect_refused(Fleet& leader, const std::string& bytes) {
  const int stranger = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<uint16_t>(leader.address().port));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(stranger, reinterpret_cast<sockaddr*>(&place), sizeof place), 0);
  ASSERT_EQ(send(stranger, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  const auto none = [](int process, const auto&...) { FAIL() << process << " is heard"; };
  for (pollfd closed{stranger, POLLIN, 0}; poll(&closed, 1, 1) == 0;)
    leader.receive(none, none, none);
  char byte = 0;
  EXPECT_LE(recv(stranger, &byte, 1, 0), 0);
  close(stranger);
}

TEST(Fleet, DoesNotHearStrangers) {
  Fleet leader(0);
  for (const char* bytes : {"GET / HTTP/1.1\r\n\r\n", "{\"process\": 1}\n", "[1]\n",
                            "{\"process\": 1, \"token\": \"guessed\"}\n{\"tell\": \"ended\"}\n",
                            "{\"process\": 1, \"token\": 7}\n"})
    expect_refused(leader, bytes);
  expect_refused(leader, std::string(1000, 'x'));
  Fleet member(1);
  member.join(address_of(leader));
  member.send({{"a", "word"}});
  EXPECT_EQ(Ear(leader).next(), R"(1: {"a":"word"})");
}

}  // namespace
}  // namespace penstock
