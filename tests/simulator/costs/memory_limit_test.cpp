#include "simulator/costs/memory_limit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr int64_t gigabyte = 1'000'000'000;

Cluster two_kinds(const std::string& first, const std::string& second) {
  return parse_cluster(
      "penstock: cluster\nnodes:\n  - {devices: 2" + first + "}\n  - {devices: 2" + second + "}\n",
      "cluster.yaml");
}

TEST(MemoryLimit, OfUnlikeDevicesIsOfEachRankItsOwn) {
  const Cluster cluster = two_kinds(", memory: 40GB", ", memory: 80GB");
  const MemoryLimit limit = device_memory({}, &cluster, 4, 1);
  EXPECT_EQ(limit.of(1), 40 * gigabyte);
  EXPECT_EQ(limit.of(2), 80 * gigabyte);
  EXPECT_EQ(format(limit), "37.3 GiB to 74.5 GiB");
  EXPECT_LE(limit.fullest({0, 40 * gigabyte, 80 * gigabyte, 0}), limit.max_bytes);
  EXPECT_EQ(limit.fullest({0, 40 * gigabyte + 7, 0, 0}), limit.max_bytes + 7);
}

TEST(MemoryLimit, OfARankIsTheLeastOfItsReplicas) {
  const Cluster cluster = two_kinds(", memory: 40GB", ", memory: 80GB");
  const MemoryLimit apart = device_memory({}, &cluster, 2, 2);  // 40 and 80 hold the same rank
  EXPECT_EQ(apart.of(0), 40 * gigabyte);
  EXPECT_EQ(apart.of(1), 40 * gigabyte);
  const Cluster together = on_devices(cluster, {0, 2, 1, 3});
  EXPECT_EQ(device_memory({}, &together, 2, 2).of(0), 40 * gigabyte);
  EXPECT_EQ(device_memory({}, &together, 2, 2).of(1), 80 * gigabyte);
}

TEST(MemoryLimit, ADeviceWithoutOneHoldsAnyNumberBesideOthers) {
  const Cluster cluster = two_kinds("", ", memory: 80GB");
  const MemoryLimit limit = device_memory({}, &cluster, 4, 1);
  EXPECT_GT(limit.of(0), int64_t{1} << 50);
  EXPECT_EQ(limit.of(3), 80 * gigabyte);
  EXPECT_EQ(format(limit), "74.5 GiB to any number");
  const Cluster none = two_kinds("", ", speed: 2");
  EXPECT_FALSE(device_memory({}, &none, 4, 1).any());
}

TEST(MemoryLimit, IsTheProfiledDevicesWhereTheClusterSaysNothing) {
  Profile profile;
  profile.device = {.kind = "cuda", .memory_bytes = 24 * gigabyte};
  profile.base_memory_bytes = gigabyte;
  EXPECT_EQ(device_memory(profile, nullptr, 4, 1).of(3), 23 * gigabyte);
  profile.device.kind = "cpu";
  EXPECT_EQ(device_memory(profile, nullptr, 2, 2).of(1), 5 * gigabyte) << "four ranks share it";
}

// A rank has a lane each to and from its neighbours: one neighbour of two ranks, two of more.
TEST(MemoryLimit, LanesOfAGpuTakeTheirsFromIt) {
  Profile profile;
  profile.device = {.kind = "cuda", .memory_bytes = 80 * gigabyte};
  profile.base_memory_bytes = gigabyte;
  profile.links = {{.kind = "nccl", .lane_bytes = 3 * gigabyte}};
  EXPECT_EQ(device_memory(profile, nullptr, 1, 1).of(0), 79 * gigabyte);
  EXPECT_EQ(device_memory(profile, nullptr, 2, 1).of(0), (79 - 6) * gigabyte);
  EXPECT_EQ(device_memory(profile, nullptr, 8, 1).of(5), (79 - 12) * gigabyte);
}

}  // namespace
}  // namespace penstock
