// Cluster files: what is read, and that every mistake is refused with its place.
#include "simulator/cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "graph/error.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;

class ClusterFile : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) const {
    std::ofstream(path_) << text;
    return path_;
  }
  std::string refusal(const std::string& text) const {
    try {
      read_cluster(write(text));
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
  void TearDown() override { std::filesystem::remove(path_); }

 private:
  const std::filesystem::path path_ =
      std::filesystem::path(::testing::TempDir()) /
      (std::string("cluster_") + ::testing::UnitTest::GetInstance()->current_test_info()->name() +
       ".yaml");
};

TEST_F(ClusterFile, EveryKeyIsRead) {
  const Cluster cluster = read_cluster(
      write("penstock: cluster\nranks: 4\nmemory: 16GiB\n"
            "link: {latency: 10us, bandwidth: 25GB/s, propagation: 1us, send: rendezvous,\n"
            "       receive_depth: 3, sender_s_per_byte: 1e-10, receiver_s_per_byte: 2e-10}\n"));
  EXPECT_EQ(cluster.ranks, 4);
  EXPECT_EQ(cluster.memory_bytes, int64_t{16} << 30);
  EXPECT_DOUBLE_EQ(cluster.link.latency_s, 10e-6);
  EXPECT_DOUBLE_EQ(cluster.link.bandwidth, 25e9);
  EXPECT_DOUBLE_EQ(cluster.link.propagation_s, 1e-6);
  EXPECT_EQ(cluster.link.mode, SendMode::rendezvous);
  EXPECT_EQ(cluster.link.receive_depth, 3);
  EXPECT_EQ(cluster.link.sender_s_per_byte, 1e-10);
  EXPECT_EQ(cluster.link.receiver_s_per_byte, 2e-10);
}

TEST_F(ClusterFile, WithoutALinkTransfersAreFreeAndMemoryIsNotLimited) {
  const Cluster cluster = read_cluster(write("penstock: cluster\nranks: 2\n"));
  EXPECT_EQ(cluster.memory_bytes, 0);
  EXPECT_EQ(cluster.link.transfer_s(1 << 30), 0);
}

TEST_F(ClusterFile, MistakesAreRefusedWithPlaceAndValue) {
  const std::string head = "penstock: cluster\nranks: 2\n";
  EXPECT_THAT(refusal("penstock: cluster\n"), HasSubstr("ranks"));
  EXPECT_THAT(refusal("penstock: cluster\nranks: 0\n"), HasSubstr("ranks"));
  EXPECT_THAT(refusal("penstock: job\nranks: 2\n"), HasSubstr("cluster"));
  EXPECT_THAT(refusal(head + "rank: 3\n"), HasSubstr("rank"));
  EXPECT_THAT(refusal(head + "memory: 0\n"), HasSubstr("memory"));
  EXPECT_THAT(refusal(head + "link: {send: eagre}\n"), HasSubstr("Did you mean eager?"));
  EXPECT_THAT(refusal(head + "link: {bandwidth: 0}\n"), HasSubstr("moves nothing"));
  EXPECT_THAT(refusal(head + "link: {bandwidth: 25ms}\n"), HasSubstr("25ms"));
  EXPECT_THAT(refusal(head + "link: {latency: -1us}\n"), HasSubstr("-1us"));
  EXPECT_THAT(refusal(head + "link: {receive_depth: -1}\n"), HasSubstr("receive_depth"));
  EXPECT_THAT(refusal(head + "link: {speed: 1}\n"), HasSubstr("speed"));
}

}  // namespace
}  // namespace penstock
