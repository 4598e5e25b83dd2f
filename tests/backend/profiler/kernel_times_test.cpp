// Times of a device whose host runs ahead, and of a launch-bound one: from hand-made records, and
// on a device with a clock of its own.
#include "backend/profiler/timing/kernel_times.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "backend/profiler/samples.hpp"
#include "backend/profiler/timing/stopwatch.hpp"
#include "tests/backend/profiler/scripted_device.hpp"

namespace penstock::profiler {
namespace {

// Issued long before it could run, so a gap of 0.5 s between two kernels is the device's own.
TEST(KernelTimes, AGapBetweenKernelsThatWereIssuedInTimeIsTheDevices) {
  const std::vector<Kernel> kernels{{0, 0.5, 1, 3}, {0.5, 1, 3.5, 5}};
  EXPECT_EQ(running_s(kernels, {{0, 1}}), (std::vector<double>{2 + 2}));
}

// The second is issued at 4 s, a second after the device became idle.
TEST(KernelTimes, AGapBeforeAKernelThatCameLateIsTheHosts) {
  const std::vector<Kernel> kernels{{0, 0.5, 1, 3}, {4, 4.25, 4.5, 6}};
  EXPECT_EQ(running_s(kernels, {{0, 5}}), (std::vector<double>{2 + 1.5}));
}

// Its call begins while the first still runs, and returns after the end of it.
TEST(KernelTimes, SoIsAGapThatACallTakesTheLongestPartOf) {
  const std::vector<Kernel> kernels{{0, 4, 6, 8}, {6, 10, 12, 14}};
  EXPECT_EQ(running_s(kernels, {{0, 10}}), (std::vector<double>{2 + 2}));
}

TEST(KernelTimes, AKernelCountsWhereItWasCalledForNotWhereItRan) {
  const std::vector<Kernel> kernels{{2.5, 2.6, 9, 11}, {0.5, 0.6, 1, 4}, {1.5, 1.6, 4, 9}};
  EXPECT_EQ(running_s(kernels, {{0, 1}, {1, 2}, {2, 3}}), (std::vector<double>{3, 5, 2}));
}

TEST(KernelTimes, WhatNoWindowCalledForCountsNowhereButTakesItsTime) {
  const std::vector<Kernel> kernels{{0.5, 0.6, 1, 4}, {1.5, 1.6, 4, 9}, {2.5, 2.6, 9, 11}};
  EXPECT_EQ(running_s(kernels, {{0, 1}, {2, 3}, {7, 8}}), (std::vector<double>{3, 2, 0}));
  EXPECT_EQ(running_s({}, {{0, 1}}), (std::vector<double>{0}));
  EXPECT_TRUE(running_s(kernels, {}).empty());
}

// On two streams: the second begins while the first runs, and the third ends within it.
TEST(KernelTimes, KernelsAtTheSameTimeCountOnce) {
  const std::vector<Kernel> kernels{{0, 0, 1, 5}, {0, 0, 2, 7}, {0, 0, 3, 4}};
  EXPECT_EQ(running_s(kernels, {{0, 1}}), (std::vector<double>{6}));
}

/// A device and its host, each with its current time. A kernel starts an eighth of a second after
/// its launch returns at the earliest; recording costs the host a fourth more.
class QueueDevice : public test::ScriptedDevice {
 public:
  enum class Records { whole, lost, none, too_long };
  Records records = Records::whole;

  /// The host takes `host_s` to issue work that runs for `device_s`.
  void launch(double host_s, double device_s) {
    const double called_s = host_s_;
    host_s_ += recording_ ? 1.25 * host_s : host_s;
    const double start_s = std::max(host_s_ + 0.125, free_s_);
    free_s_ = start_s + device_s;
    if (recording_) kernels_.push_back({called_s, host_s_, start_s, free_s_});
  }
  Stopwatch watch() {
    return Stopwatch(*this, [this] { return host_s_; });
  }

  std::unique_ptr<Marks> make_marks() override { return std::make_unique<QueueMarks>(*this); }
  KernelTrace* trace() override { return &trace_; }

 private:
  class QueueMarks : public Marks {
   public:
    explicit QueueMarks(QueueDevice& device) : device_(device) {}
    void mark() override { times_.push_back(std::max(device_.host_s_, device_.free_s_)); }
    std::vector<double> times() override {
      device_.host_s_ = std::max(device_.host_s_, device_.free_s_);
      return std::exchange(times_, {});
    }

   private:
    QueueDevice& device_;
    std::vector<double> times_;
  };
  class QueueTrace : public KernelTrace {
   public:
    explicit QueueTrace(QueueDevice& device) : device_(device) {}
    void start() override { device_.recording_ = true; }
    std::vector<Kernel> stop() override {
      device_.recording_ = false;
      std::vector<Kernel> kernels = std::exchange(device_.kernels_, {});
      if (device_.records == Records::lost) throw std::runtime_error("records are lost");
      if (device_.records == Records::none) kernels.clear();
      if (device_.records == Records::too_long) kernels.back().end_s += 1000;
      return kernels;
    }

   private:
    QueueDevice& device_;
  };

  double host_s_ = 0, free_s_ = 0;
  bool recording_ = false;
  std::vector<Kernel> kernels_;
  QueueTrace trace_{*this};
};

// The host takes 4 s for each of two actions that run for 1 s; then 1 s for one of 8 s.
std::vector<Seconds> run_three(Stopwatch& watch, QueueDevice& device, bool traced) {
  std::vector<Seconds> seconds(3);
  watch.begin(traced);
  for (int i = 0; i < 2; ++i) {
    watch.time(seconds[static_cast<size_t>(i)], [&] {
      device.launch(2, 0.5);
      device.launch(2, 0.5);
    });
  }
  watch.time(seconds[2], [&] { device.launch(1, 8); });
  watch.finish();
  return seconds;
}

TEST(Stopwatch, ReadsInPlaceWhatADeviceWaitedForItsHost) {
  QueueDevice device;
  Stopwatch watch = device.watch();
  const std::vector<Seconds> seconds = run_three(watch, device, false);
  EXPECT_EQ(seconds[0].device, 4.625);  // 4 s, the launch's latency, the last kernel
  EXPECT_EQ(seconds[0].host, 4);
  EXPECT_EQ(seconds[1].device, 4);
  EXPECT_EQ(seconds[2].host, 1);
  EXPECT_EQ(seconds[2].device,
            8 + 0.5);  // 1.125 s after it was called for, which the kernel before hid a part of
}

TEST(Stopwatch, ReadsFromRecordsWhatTheDeviceRan) {
  QueueDevice device;
  Stopwatch watch = device.watch();
  for (int i = 0; i < 2; ++i) {  // a second time from a clock that has gone on
    const std::vector<Seconds> seconds = run_three(watch, device, true);
    EXPECT_EQ(seconds[0].device, 1);
    EXPECT_EQ(seconds[1].device, 1);
    EXPECT_EQ(seconds[2].device, 8);
  }
}

TEST(Stopwatch, ReadsInPlaceWhereRecordsAreLostOrCannotBe) {
  QueueDevice device;
  Stopwatch watch = device.watch();
  for (const auto records :
       {QueueDevice::Records::lost, QueueDevice::Records::none, QueueDevice::Records::too_long}) {
    device.records = records;
    EXPECT_GT(run_three(watch, device, true)[0].device, 4);  // with what it waited for its host
    EXPECT_FALSE(watch.recorded());
  }
  EXPECT_EQ(watch.lost(), 3);
  device.records = QueueDevice::Records::whole;
  EXPECT_EQ(run_three(watch, device, true)[0].device, 1);
  EXPECT_TRUE(watch.recorded());
  EXPECT_EQ(watch.lost(), 3);
}

TEST(Stopwatch, ForgetsARunThatFailed) {
  QueueDevice device;
  Stopwatch watch = device.watch();
  Seconds lost, kept;
  watch.begin(true);
  EXPECT_THROW(watch.time(lost,
                          [&] {
                            device.launch(1, 1);
                            throw std::runtime_error("out of memory");
                          }),
               std::runtime_error);
  kept = timed(watch, true, [&] { device.launch(1, 3); });
  EXPECT_EQ(kept.device, 3);
  EXPECT_EQ(lost.device, 0);
}

// Recorded runs give the times of the device, the others those of its host, which recording slows.
TEST(ActionSamples, TakeTheDeviceFromRecordsAndTheHostFromTheOtherRuns) {
  QueueDevice device;
  Stopwatch watch = device.watch();
  ActionSamples samples;
  for (const bool traced : {false, true, false, true}) {
    const Seconds seconds = timed(watch, traced, [&] { device.launch(4, 1); });
    samples.add(seconds, watch.recorded(), traced);
  }
  const Measured measured = samples.measured();
  EXPECT_EQ(measured.mean_s, 1);
  EXPECT_EQ(measured.host_s, 4);
  EXPECT_EQ(measured.repetitions, 2);
  EXPECT_EQ(samples.in_place_s(), 5.125);
}

TEST(ActionSamples, OfASingleRunThatWasRecordedTakeBoth) {
  ActionSamples samples;
  samples.add({.device = 1, .host = 5}, true, true);
  EXPECT_EQ(samples.measured().mean_s, 1);
  EXPECT_EQ(samples.measured().host_s, 5);
}

// Without records times include waiting for the host.
TEST(ActionSamples, TakeTheDeviceInPlaceWithoutRecords) {
  ActionSamples samples;
  samples.add({.device = 4, .host = 4}, false, false);
  EXPECT_EQ(samples.measured().mean_s, 4);
}

}  // namespace
}  // namespace penstock::profiler
