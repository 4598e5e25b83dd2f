// Fitting recovers the efficiencies that a profile was computed with.
#include "estimate/fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "estimate/estimate.hpp"
#include "graph/pt2/pt2.hpp"
#include "tests/estimate/support.hpp"
#include "tests/models/models.hpp"

namespace penstock {
namespace {

/// Times of a hundred operators, each a sum of a few terms, in a system of eight unknowns whose
/// columns differ by up to 1e4: about 1e5 roundings of 2^-53.
constexpr double rounding = 1e-10;

/// A device with figures of the order of a real one.
DeviceSpec real_device() {
  DeviceSpec device = testing::round_spec();
  device.bandwidth = 1e10;
  device.memory_bytes = int64_t{1} << 40;
  device.matrix_flops = device.vector_flops = {{DType::float32, 1e11}};
  device.launch_s = 2e-6;
  device.efficiency = {0.6, 0.3, 0.5, 0.7, 0.9, 0.8, 0.45, 0.75};
  return device;
}

Job training() {
  Job job;
  job.global_batch = 16;
  job.optimizer.kind = OptimizerSpec::Kind::adamw;
  return job;
}

class FitEfficiency : public ::testing::Test {
 protected:
  void SetUp() override {
    PENSTOCK_MODEL(path, "gpt");
    graph_ = read_pt2(path);
    measured_ = estimate(graph_, training(), real_device());
    measured_.path = "measured.json";
    measured_.device.details.clear();  // as if it had been measured
    described_ = real_device();
    described_.efficiency.fill(1);
    described_.launch_s = 0;
  }
  /// A fifth of all times, of all classes, takes longer: another process ran.
  void disturb() {
    int count = 0;
    for (MicrobatchCosts& costs : measured_.microbatches)
      for (OperatorCost& op : costs.operators)
        for (Measured ActionTimes::*action :
             {&ActionTimes::forward, &ActionTimes::backward, &ActionTimes::backward_input,
              &ActionTimes::backward_weight})
          if (++count % 5 == 0) (op.times.*action).mean_s *= 3 + count % 4;
  }
  std::string refusal() const {
    try {
      fit_efficiency(measured_, graph_, described_);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }

  Graph graph_;
  Profile measured_;
  DeviceSpec described_;
};

void expect_efficiencies(const EfficiencyFit& fit) {
  for (int kind = 0; kind < operator_classes; ++kind) {
    if (static_cast<OperatorClass>(kind) == OperatorClass::convolution) continue;  // has none
    const auto at = static_cast<size_t>(kind);
    EXPECT_NEAR(fit.device.efficiency[at] / real_device().efficiency[at], 1, rounding)
        << name(static_cast<OperatorClass>(kind));
  }
  EXPECT_NEAR(fit.device.launch_s / real_device().launch_s, 1, rounding);
}

TEST_F(FitEfficiency, FindsEveryClassAgain) {
  const EfficiencyFit fit = fit_efficiency(measured_, graph_, described_);
  expect_efficiencies(fit);
  EXPECT_NEAR(fit.residual, 0, rounding);
  EXPECT_EQ(fit.device.efficiency[static_cast<size_t>(OperatorClass::convolution)], 1);
  EXPECT_EQ(fit.samples[static_cast<size_t>(OperatorClass::convolution)], 0);
  EXPECT_EQ(fit.device.action_s, real_device().action_s);
}

TEST_F(FitEfficiency, FindsThemBesideWrongMeasurements) {
  disturb();
  const EfficiencyFit fit = fit_efficiency(measured_, graph_, described_);
  expect_efficiencies(fit);
  EXPECT_GT(fit.residual, 0.1);
}

/// The triangle inequality: a sum of errors is no more than the sum of their amounts.
TEST_F(FitEfficiency, TheWholeIsNotFurtherOffThanTheResidual) {
  disturb();
  const EfficiencyFit fit = fit_efficiency(measured_, graph_, described_);
  const Profile again = estimate(graph_, training(), fit.device);
  double measured_s = 0, estimated_s = 0;
  for (const MicrobatchCosts& costs : measured_.microbatches)
    for (const OperatorCost& op : costs.operators)
      measured_s += op.times.forward.mean_s + op.times.backward.mean_s;
  for (const MicrobatchCosts& costs : again.microbatches)
    for (const OperatorCost& op : costs.operators)
      estimated_s += op.times.forward.mean_s + op.times.backward.mean_s;
  EXPECT_NEAR(estimated_s / fit.estimated_s, 1, rounding);
  EXPECT_NEAR(measured_s / fit.measured_s, 1, rounding);
  EXPECT_LE(std::abs(estimated_s / measured_s - 1), fit.residual * (1 + rounding));
}

TEST_F(FitEfficiency, TakesTheMeasuredLinkWhereTheDeviceFileHasNone) {
  EXPECT_EQ(fit_efficiency(measured_, graph_, described_).device.links, described_.links);
  described_.links.clear();
  EXPECT_EQ(fit_efficiency(measured_, graph_, described_).device.links, measured_.links);
}

TEST_F(FitEfficiency, RefusesAnEstimate) {
  measured_.device.details["source"] = "estimate";
  EXPECT_THAT(refusal(), ::testing::HasSubstr("itself an estimate"));
}

TEST_F(FitEfficiency, RefusesAnotherKindOfDevice) {
  measured_.device.kind = "cpu";
  EXPECT_THAT(refusal(), ::testing::HasSubstr("measured on a cpu"));
}

TEST_F(FitEfficiency, RefusesAnotherModel) {
  measured_.model_sha256 = "0";
  EXPECT_THAT(refusal(), ::testing::HasSubstr("SHA-256"));
}

TEST_F(FitEfficiency, RefusesAProfileWithoutMeasurements) {
  measured_.microbatches.clear();
  EXPECT_THAT(refusal(), ::testing::HasSubstr("no measured microbatch"));
}

}  // namespace
}  // namespace penstock
