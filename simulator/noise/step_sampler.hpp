// Steps of a program with drawn times: compiled once, simulated as often as asked for.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "simulator/engine/compile.hpp"
#include "simulator/noise/step_noise.hpp"

namespace penstock {

/// Every draw belongs to what it is for: the step's number, the rank of the replica, the unit,
/// action and microbatch. Two plans thus run their steps on the same luck, and their difference
/// tells more than their number of steps would (common random numbers; Law, "Simulation Modeling
/// and Analysis", 5th edition, section 11.2).
class StepSampler {
 public:
  /// A lowered program that can finish, and its costs. Throws as `compile`. `network` outlives
  /// this.
  StepSampler(const Program& lowered, const Costs& costs, const Network& network,
              const StepNoise& noise, int64_t replicas);
  StepSampler(const StepSampler&) = delete;
  StepSampler& operator=(const StepSampler&) = delete;

  /// Seconds of step `number` with drawn times: the simulation's, to the last bit, where nothing
  /// varies. Of the slowest replica, whose gradients the others wait for; exact where reductions
  /// end the step.
  double drawn_s(uint64_t seed, int64_t number);
  /// Seconds of the step on means that the profile might as well have measured: each is off by its
  /// standard error times a number of mean 0 and variance 1.
  double shifted_s(uint64_t seed, int64_t number);

  int64_t tasks() const { return static_cast<int64_t>(base_.tasks.size()) * replicas_; }

 private:
  struct Part {
    uint64_t mean;  // the unit and action whose mean it takes
    uint64_t use;   // and the action that it is part of
    double seconds, error;
    Factors jitter;
  };
  /// A compute task; `parts` of its F, B, I or W, of both of an OVERLAP_F_B.
  struct Varied {
    int32_t task;
    int rank;
    uint64_t microbatch[2];
    const std::vector<Part>* parts[2];
  };

  double run() const;
  void add_parts(const StepNoise& noise);
  void vary(const Program& lowered);

  const Network& network_;
  const int64_t replicas_;
  const Factors common_, own_;
  const double size_error_, link_error_;
  const uint64_t size_;
  std::vector<std::array<std::vector<Part>, 4>> parts_;  // by stage and action
  CompiledProgram base_, now_;
  std::vector<Varied> varied_;
};

/// Steps in brief, in seconds; quantiles by linear interpolation.
struct SampledSteps {
  int64_t count = 0;
  uint64_t seed = 0;
  double mean_s = 0, median_s = 0, p5_s = 0, p95_s = 0;
};
SampledSteps sampled_steps(StepSampler& sampler, uint64_t seed, int64_t count);

}  // namespace penstock
