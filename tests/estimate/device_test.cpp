// Device files: what is read, that every mistake is refused with its place, and the ones we ship.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.hpp"
#include "tests/estimate/support.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  try {
    parse_device_spec(text, "device.yaml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(DeviceFile, EveryKeyIsRead) {
  const DeviceSpec spec = parse_device_spec(
      replaced(testing::round_device, "memory: 1GB\n", "memory: 1GB\nreserved: 1MiB\n"), "d.yaml");
  EXPECT_EQ(spec.name, "Round");
  EXPECT_EQ(spec.kind, "cuda");
  EXPECT_EQ(spec.memory_bytes, 1'000'000'000);
  EXPECT_EQ(spec.reserved_bytes, 1 << 20);
  EXPECT_EQ(spec.bandwidth, 1000);
  EXPECT_EQ(spec.launch_s, 0.25);
  EXPECT_EQ(spec.action_s, 1);
  EXPECT_EQ(spec.efficiency, (PerClass{0.5, 1, 1, 0.25, 1, 1, 1, 0.5}));
  ASSERT_EQ(spec.links.size(), 1U);
  EXPECT_EQ(spec.links[0].kind, "wire");
  EXPECT_DOUBLE_EQ(spec.links[0].latency_s, 1e-3);
  EXPECT_DOUBLE_EQ(spec.links[0].bandwidth, 1e6);
}

TEST(DeviceFile, ProductsHaveThePeakOfTheirTypeAndTheRestThatOfFloat32) {
  const DeviceSpec spec = testing::round_spec();
  EXPECT_EQ(spec.peak(OperatorClass::gemm, DType::float32), 1e4);
  EXPECT_EQ(spec.peak(OperatorClass::attention, DType::float32), 1e4);
  EXPECT_EQ(spec.peak(OperatorClass::normalisation, DType::float32), 500);
  EXPECT_EQ(spec.peak(OperatorClass::elementwise, DType::bfloat16), 500);
  EXPECT_THROW(spec.peak(OperatorClass::gemm, DType::bfloat16), InputError);
}

TEST(DeviceFile, ALinkIsFittedToSamples) {
  const DeviceSpec spec = parse_device_spec(
      replaced(testing::round_device, "latency: 1ms, bandwidth: 1MB/s",
               "samples: [{bytes: 1000, seconds: 2ms}, {bytes: 9000, seconds: 10ms}]"),
      "d.yaml");
  // Two rows and two unknowns: exact to the rounding of a few quotients.
  EXPECT_NEAR(spec.links[0].latency_s, 1e-3, 1e-14);
  EXPECT_NEAR(spec.links[0].bandwidth, 1e6, 1e-3);
  EXPECT_EQ(spec.links[0].samples.size(), 2U);
}

TEST(DeviceFile, EveryMistakeIsToldWithItsPlaceAndCure) {
  const std::string& good = testing::round_device;
  const std::vector<std::array<std::string, 4>> mistakes = {
      {"kind: cuda", "kind: tpu", "device.yaml:3: kind", "cpu or cuda"},
      {"memory: 1GB", "memory: 0B", "memory", "80GB"},
      {"memory: 1GB\n", "", "memory", "missing"},
      {"bandwidth: 1000B/s", "bandwidth: 0B/s", "bandwidth", "3.35TB/s"},
      {"bandwidth: 1000B/s", "bandwidth: fast", "bandwidth", "fast"},
      {"{float32: 1e4}", "{float32: 0}", "matrix.float32", "FLOPs"},
      {"{float32: 1e4}", "{float33: 1}", "float33", "float32"},
      {"vector: {float32: 500}", "vector: {}", "vector", "float32"},
      {"launch: 250ms", "launch: -1s", "launch", "negative"},
      {"gemm: 0.5", "gemm: 0", "efficiency.gemm", "share"},
      {"gemm: 0.5, ", "", "gemm", "missing"},
      {"gemm: 0.5", "gemm: 0.5, gems: 1", "gems", "gemm"},
      {"latency: 1ms, ", "", "latency", "missing"},
      {"bandwidth: 1MB/s}", "bandwidth: 0}", "links[0].bandwidth", "450GB/s"},
      {"latency: 1ms, bandwidth: 1MB/s", "samples: [{bytes: 8, seconds: 1us}]", "samples", "two"},
      {"latency: 1ms, bandwidth: 1MB/s", "samples: [{bytes: 8, seconds: 0}]", "seconds", "12us"},
      {"latency: 1ms, bandwidth",
       "samples: [{bytes: 8, seconds: 1us}, {bytes: 9, seconds: 1us}], "
       "bandwidth",
       "bandwidth", ""},
      {"penstock: device", "penstock: cluster", "cluster", "device"},
  };
  for (const auto& [from, to, place, cure] : mistakes) {
    const std::string message = refusal(replaced(good, from, to));
    EXPECT_THAT(message, HasSubstr("device.yaml")) << to;
    EXPECT_THAT(message, HasSubstr(place)) << to;
    EXPECT_THAT(message, HasSubstr(cure)) << to;
  }
}

TEST(DeviceFile, TheOnesShippedAreReadAndOrderedAsTheirMakersOrderThem) {
  const std::filesystem::path folder = std::filesystem::path(PENSTOCK_SOURCE) / "configs/devices";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const DeviceSpec spec = read_device_spec(entry.path());
    EXPECT_FALSE(spec.links.empty()) << entry.path();
    EXPECT_GT(spec.peak(OperatorClass::gemm, DType::float32), 0) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 7);
  const auto bf16 = [&](const char* file) {
    return read_device_spec(folder / file).peak(OperatorClass::gemm, DType::bfloat16);
  };
  EXPECT_LT(bf16("l4.yaml"), bf16("rtx4090.yaml"));
  EXPECT_LT(bf16("rtx4090.yaml"), bf16("a100.yaml"));
  EXPECT_LT(bf16("a100.yaml"), bf16("h100.yaml"));
  EXPECT_EQ(bf16("h100.yaml"), bf16("h200.yaml"));
  EXPECT_LT(bf16("h200.yaml"), bf16("b200.yaml"));
}

}  // namespace
}  // namespace penstock
