// Runs that should be equal: the data that they train on, and the tolerances.
//
// Tolerances: relative 1e-5 in float32 and 1e-10 in float64, of each tensor's norm (or of 1e-5 of
// the norm of all). The runs differ only in the order in which a few float additions are done (a
// shared parameter's gradients, replicas): at most 16 roundings of 2^-24 = 6e-8 each, 1e-6 in all,
// times a growth below 10 over the three steps of these small networks; in float64 the same with
// 2^-53.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "backend/data/safetensors.hpp"
#include "tests/backend/executor/run.hpp"
#include "tests/backend/support.hpp"

namespace penstock::test {

inline constexpr double kFloat32 = 1e-5, kFloat64 = 1e-10;

/// 24 samples of standard normal `x` [width] with classes 0..9, for two different steps of 8 or 16.
inline std::string vectors(const TemporaryFolder& folder, int64_t width, at::ScalarType type) {
  at::manual_seed(3);
  std::string path = folder / "data.safetensors";
  write_tensors(
      path, {{"x", at::randn({24, width}, type)}, {"target", at::randint(10, {24}, at::kLong)}});
  return path;
}

inline void expect_equal(const RunResult& run, const RunResult& reference, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(run.losses.size(), reference.losses.size());
  for (size_t step = 0; step < run.losses.size(); ++step) {
    EXPECT_NEAR(run.losses[step], reference.losses[step], tolerance * reference.losses[step])
        << what << ", step " << step;
  }
  EXPECT_LE(difference(run.gradients, reference.gradients), tolerance) << what << ", gradients";
  EXPECT_LE(difference(run.parameters, reference.parameters), tolerance) << what << ", parameters";
}

}  // namespace penstock::test
