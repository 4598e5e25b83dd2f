// Steps of a program with drawn times: compiled once, simulated as often as asked for.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "simulator/engine/compile.hpp"
#include "simulator/noise/step_noise.hpp"

namespace penstock {

/// Every draw belongs to what it is for: the step's number, the rank of the replica and the part of
/// its tensor group, the unit, action and microbatch. Two plans thus run their steps on the same
/// luck, and their difference tells more than their number of steps would (common random numbers;
/// Law, "Simulation Modeling and Analysis", 5th edition, section 11.2).
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
  /// end the step. The parts of a tensor group are taken to meet at the ends of actions, too: exact
  /// where actions end with a message between them, else jitter counts for a little more.
  double drawn_s(uint64_t seed, int64_t number);
  /// Seconds of the step on means that the profile might as well have measured: each is off by its
  /// standard error times a number of mean 0 and variance 1.
  double shifted_s(uint64_t seed, int64_t number);

  int64_t tasks() const { return static_cast<int64_t>(base_.tasks.size()) * replicas_; }

 private:
  struct Unit {
    uint64_t mean;  // the unit and action whose mean it takes
    uint64_t use;   // and the action that it is part of
    double seconds, error;
    Factors jitter;
  };
  /// A rank computes it until its tensor group meets; all of an action where it is in none.
  struct Phase {
    std::vector<Unit> units;
    double seconds = 0;  // of these
  };
  struct Noise {
    std::vector<Phase> phases;  // one at least
    double sent_s = 0;          // between them
  };
  /// A compute task: its F, B, I or W, both of an OVERLAP_F_B, or `nothing_`.
  struct Varied {
    int32_t task;
    int rank;
    std::vector<std::pair<uint64_t, const Noise*>> actions;  // microbatch and noise
    double other_s;  // of the task, beside units and what is sent: varies with the rank
  };
  /// Luck of one rank of the run in one step.
  struct Luck {
    double factor;    // its own and what is common
    uint64_t jitter;  // key of its draws
  };

  double run() const;
  void add_units(const StepNoise& noise);
  void vary(const Program& lowered);
  double duration_s(const Varied& varied, std::span<const Luck> parts) const;

  const Network& network_;
  const int64_t replicas_, group_parts_;
  const Factors common_, own_;
  const double size_error_, link_error_;
  const uint64_t size_;
  const Noise nothing_{.phases = {{}}};
  std::vector<std::array<Noise, 4>> noise_;  // by stage and action
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
