// Cluster files: what is read, and that every mistake is refused with its place.
#include "simulator/network/cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "simulator/network/network.hpp"

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

TEST_F(ClusterFile, NodesAreReadInOrder) {
  const Cluster cluster = read_cluster(write(
      "penstock: cluster\nnodes:\n"
      "  - {count: 2, devices: 4, cores: 2, device: H100, memory: 80GB, link: {latency: 5us, "
      "bandwidth: "
      "450GB/s},\n"
      "     bus: {bandwidth: 1TB/s, duplex: half}, network: {cards: 2, bandwidth: 50GB/s}}\n"
      "  - {devices: 1, memory: 40GB, speed: 0.5, network: {bandwidth: 25GB/s, duplex: half}}\n"
      "network: {latency: 12us, propagation: 1us, switch: {bandwidth: 400GB/s}}\n"
      "send: rendezvous\nreceive_depth: 4\n"
      "all_reduce: {algorithm: fastest, bucket: 25MB, overlap: true}\n"));
  EXPECT_EQ(cluster.ranks, 9);
  EXPECT_EQ(cluster.memory(7), 80'000'000'000);
  EXPECT_EQ(cluster.memory(8), 40'000'000'000);
  ASSERT_EQ(cluster.nodes.size(), 2U);
  EXPECT_EQ(cluster.nodes[0].device, "H100");
  EXPECT_EQ(cluster.nodes[0].cores, 2);
  EXPECT_EQ(cluster.nodes[1].cores, 0);
  EXPECT_EQ(cluster.nodes[0].cards, 2);
  EXPECT_EQ(cluster.nodes[0].bus_bandwidth, 1e12);
  EXPECT_FALSE(cluster.nodes[0].bus_full_duplex);
  EXPECT_TRUE(cluster.nodes[0].card_full_duplex);
  EXPECT_FALSE(cluster.nodes[1].card_full_duplex);
  EXPECT_EQ(cluster.between.switch_bandwidth, 400e9);
  EXPECT_EQ(cluster.link.mode, SendMode::rendezvous);
  EXPECT_EQ(cluster.link.receive_depth, 4);
  EXPECT_EQ(cluster.all_reduce.algorithm, AllReduce::Algorithm::fastest);
  EXPECT_EQ(cluster.all_reduce.sums.bucket_bytes, 25'000'000);
  EXPECT_TRUE(cluster.all_reduce.sums.overlap);
  EXPECT_EQ(cluster.speed(7), 1);
  EXPECT_EQ(cluster.speed(8), 0.5);
}

TEST_F(ClusterFile, RanksMayUseSomeOfItsDevicesInAnyOrder) {
  const Cluster cluster = parse_cluster(
      "penstock: cluster\nnodes:\n"
      "  - {devices: 2, memory: 40GB, speed: 0.5, link: {latency: 1us, bandwidth: 1GB/s}}\n"
      "  - {devices: 2, memory: 80GB, link: {latency: 2us, bandwidth: 2GB/s}}\n"
      "network: {latency: 9us}\n",
      "cluster.yaml");
  const Cluster fast = on_devices(cluster, {3, 2});
  EXPECT_EQ(fast.ranks, 2);
  EXPECT_EQ(fast.memory(1), 80'000'000'000);
  EXPECT_EQ(fast.speed(1), 1);
  EXPECT_EQ(fast.place(0).device, 1);
  EXPECT_EQ(Network(fast).route(0, 1).bandwidth, 2e9);
  const Cluster mixed = on_devices(cluster, {2, 0, 1});
  EXPECT_EQ(mixed.memory(0), 80'000'000'000);
  EXPECT_EQ(mixed.memory(2), 40'000'000'000);
  EXPECT_EQ(mixed.speed(0), 1);
  EXPECT_EQ(mixed.speed(2), 0.5);
  EXPECT_EQ(Network(mixed).route(0, 1).latency_s, 9e-6);
  EXPECT_EQ(Network(mixed).route(1, 2).latency_s, 1e-6);
}

TEST_F(ClusterFile, NodesMayLoseSomeOfTheirDevices) {
  const Cluster cluster = parse_cluster(
      "penstock: cluster\nnodes:\n"
      "  - {count: 2, devices: 4, speed: 0.5, cores: 6, link: {latency: 1us, bandwidth: 1GB/s},\n"
      "     network: {cards: 2, bandwidth: 3GB/s}}\n"
      "  - {devices: 2, memory: 80GB, link: {latency: 2us, bandwidth: 2GB/s}}\n"
      "network: {latency: 9us}\n",
      "cluster.yaml");
  const Cluster left = with_only(cluster, {0, 1, 3, 4, 5, 9});
  EXPECT_EQ(left.ranks, 6);
  ASSERT_EQ(left.nodes.size(), 3u);
  NodeKind first = cluster.nodes[0];
  first.count = first.cards = 1;
  first.devices = 3;
  EXPECT_EQ(left.nodes[0], first);
  first.devices = 2;
  EXPECT_EQ(left.nodes[1], first) << "its devices share the first card";
  EXPECT_EQ(with_only(cluster, {5, 6}).nodes[0].cards, 2);
  EXPECT_EQ(left.memory(5), 80'000'000'000);
  EXPECT_EQ(left.place(5).node, 2);
  EXPECT_EQ(Network(left).route(0, 2).latency_s, 1e-6);
  EXPECT_EQ(Network(left).route(2, 3).latency_s, 9e-6);
}

TEST_F(ClusterFile, MistakesInNodesAreRefusedWithPlaceValueAndCure) {
  const auto nodes = [&](const std::string& node, const std::string& more = "") {
    return refusal("penstock: cluster\nnodes:\n  - {" + node + "}\n" + more);
  };
  EXPECT_THAT(nodes("devices: 8, network: {cards: 3}"),
              AllOf(HasSubstr("nodes[0].network.cards"), HasSubstr("3 cards for 8 devices")));
  EXPECT_THAT(nodes("devices: 8, network: {duplex: both}"), HasSubstr("full (each direction"));
  EXPECT_THAT(nodes("devices: 8, memory: 0"), HasSubstr("no memory at all"));
  EXPECT_THAT(nodes("devices: 8, speed: 0"), HasSubstr("nodes[0].speed"));
  EXPECT_THAT(nodes("devices: 8, cores: 0"), HasSubstr("nodes[0].cores"));
  EXPECT_THAT(nodes("devices: 8, lnik: {}"), HasSubstr("Did you mean link?"));
  EXPECT_THAT(nodes("count: 1048576, devices: 2"), HasSubstr("nodes[0].devices"));
  EXPECT_THAT(nodes("devices: 8", "all_reduce: {algorithm: rign}\n"),
              HasSubstr("Did you mean ring?"));
  EXPECT_THAT(nodes("devices: 8", "ranks: 8\n"), HasSubstr("ranks"));
}

TEST(ClusterConfigs, AllCanBeReadAndGiveTheirSources) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PENSTOCK_CONFIGS "/clusters")) {
    const Cluster cluster = read_cluster(entry.path());
    EXPECT_GE(cluster.ranks, 2) << entry.path();
    EXPECT_GT(cluster.memory(0), 0) << entry.path();
    ++found;
  }
  EXPECT_GE(found, 5);
}

}  // namespace
}  // namespace penstock
