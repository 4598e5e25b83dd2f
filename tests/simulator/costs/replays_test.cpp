// A profile's times as they are where steps are replayed as CUDA graphs.
#include "simulator/costs/replays.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

ActionTimes times(Measured forward, Measured backward) { return {forward, backward, {}, {}}; }
Measured taking(double device_s, double host_s) { return {device_s, device_s, 0, 1, host_s}; }

/// Two operators in one unit, and the loss: the device takes F 1 + 2 + 1 and B 8 for each sample,
/// the host F 10 + 20 + 10 and B 60 whatever the size.
MicrobatchCosts costs_of(int64_t microbatch) {
  const double n = double(microbatch);
  MicrobatchCosts costs{.microbatch = microbatch};
  costs.operators = {{.name = "a", .times = times(taking(n, 10), taking(2 * n, 20))},
                     {.name = "b", .times = times(taking(2 * n, 20), taking(6 * n, 40))}};
  costs.units = {{"", 0, 2, times(taking(3 * n, 30), taking(8 * n, 60)), {}}};
  costs.loss_forward = taking(n, 10);
  return costs;
}

/// At one sample F takes 2 longer than without, and B 1 less.
Profile replayed_profile() {
  Profile profile{.path = "p.json", .microbatches = {costs_of(1), costs_of(4), costs_of(64)}};
  profile.replays = {{1, times(taking(6, 4), taking(7, 3))}};
  return profile;
}

TEST(Replays, TakeAsMuchLongerOrShorterAtEverySize) {
  const Profile profile = with_replays(replayed_profile(), CudaGraphs::always);
  for (const MicrobatchCosts& costs : profile.microbatches) {
    const double n = double(costs.microbatch);
    const WorkSeconds forward = costs.whole(&ActionTimes::forward),
                      backward = costs.whole(&ActionTimes::backward);
    EXPECT_DOUBLE_EQ(forward.device_s, 4 * n + 2);
    EXPECT_DOUBLE_EQ(forward.host_s, 4);
    EXPECT_DOUBLE_EQ(backward.device_s, 8 * n - 1);
    EXPECT_DOUBLE_EQ(backward.host_s, 3);
  }
}

// At four samples F takes as long as without, and B 4 less.
TEST(Replays, TakeWhatWasMeasuredAtTheirSizeOrElseTheNextBelow) {
  Profile profile = replayed_profile();
  profile.replays.push_back({4, times(taking(16, 5), taking(28, 6))});
  const Profile after = with_replays(profile, CudaGraphs::always);
  const auto forward = [&](size_t i) { return after.microbatches[i].whole(&ActionTimes::forward); };
  const auto backward = [&](size_t i) {
    return after.microbatches[i].whole(&ActionTimes::backward);
  };
  EXPECT_DOUBLE_EQ(forward(0).device_s, 6);
  EXPECT_DOUBLE_EQ(forward(1).device_s, 16);
  EXPECT_DOUBLE_EQ(forward(2).device_s, 4 * 64);
  EXPECT_DOUBLE_EQ(backward(1).device_s, 28);
  EXPECT_DOUBLE_EQ(backward(2).device_s, 8 * 64 - 4);
  EXPECT_DOUBLE_EQ(forward(0).host_s, 4);
  EXPECT_DOUBLE_EQ(backward(2).host_s, 6);
}

TEST(Replays, AreSharedByOperatorsAsWithoutThem) {
  const MicrobatchCosts costs =
      with_replays(replayed_profile(), CudaGraphs::always).microbatches.front();
  // F has 4 s of kernels and 40 s of host: a has a quarter, b half, the loss the rest.
  EXPECT_DOUBLE_EQ(costs.operators[0].times.forward.mean_s, 1.5);
  EXPECT_DOUBLE_EQ(costs.operators[0].times.forward.median_s, 1.5);
  EXPECT_DOUBLE_EQ(costs.operators[0].times.forward.host_s, 1);
  EXPECT_DOUBLE_EQ(costs.operators[1].times.forward.mean_s, 3);
  EXPECT_DOUBLE_EQ(costs.operators[1].times.forward.host_s, 2);
  EXPECT_DOUBLE_EQ(costs.units[0].times.forward.mean_s, 4.5);
  EXPECT_DOUBLE_EQ(costs.loss_forward.mean_s, 1.5);
  EXPECT_DOUBLE_EQ(costs.loss_forward.host_s, 1);
}

// Without: 100 s of host, 12 a sample of the device. With: 7 s of host, 1 more of the device.
TEST(Replays, AreTakenWhereTheyAreFaster) {
  const Profile before = replayed_profile(), after = with_replays(before, CudaGraphs::automatic);
  EXPECT_DOUBLE_EQ(after.microbatches[0].pass().longer_s(), 13);
  EXPECT_DOUBLE_EQ(after.microbatches[1].pass().longer_s(), 49);
}

TEST(Replays, AreLeftAwayWhereTheHostIsFarAhead) {
  Profile profile = replayed_profile();
  profile.replays.front().times.forward.mean_s = 1;  // shorter than without at every size
  const Profile after = with_replays(profile, CudaGraphs::automatic);
  EXPECT_EQ(after.microbatches[2], profile.microbatches[2]) << "100 s of host, 768 of the device";
  EXPECT_NE(after.microbatches[1], profile.microbatches[1]);
}

TEST(Replays, AreLeftAwayWhereTheyTakeLonger) {
  Profile profile = replayed_profile();
  profile.replays.front().times.forward.mean_s = 100;
  const Profile after = with_replays(profile, CudaGraphs::automatic);
  EXPECT_EQ(after.microbatches, profile.microbatches);
}

TEST(Replays, AreLeftAwayWhereTheyAreOffOrWereNotMeasured) {
  Profile profile = replayed_profile();
  EXPECT_EQ(with_replays(profile, CudaGraphs::never), profile);
  profile.replays.clear();
  EXPECT_EQ(with_replays(profile, CudaGraphs::automatic), profile);
  EXPECT_THAT(
      [&] { with_replays(profile, CudaGraphs::always); },
      ThrowsMessage<InputError>(HasSubstr("p.json: the profile has no times of CUDA graphs")));
}

}  // namespace
}  // namespace penstock
