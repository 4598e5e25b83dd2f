// The runs of one chain, collected and summarized. Where some were traced, the device's times are
// those of the traced runs and the host's those of the others, if there are any; otherwise the
// device's times include waiting for its host.
#pragma once

#include <vector>

#include "backend/profiler/chain.hpp"
#include "pipeline/profile/profile.hpp"
#include "pipeline/profile/variation.hpp"

namespace penstock::profiler {

/// One stage of a chain, over all repetitions.
struct StageCost {
  ActionTimes times;
  double pass_s = 0;  // mean of F and B, waiting for a host included
};

/// The variation of a chain's stages from round to round: F and B, then F, I and W of all of them
/// (pipeline/profile/variation.hpp). Empty after too few rounds.
struct ChainVariation {
  Factors rounds;
  std::vector<ActionJitter> stages;
};

/// Collects the times of one action.
class ActionSamples {
 public:
  /// `recorded`: the device's time is by its records; `traced`: it made records, which slowed the
  /// host.
  void add(const Seconds& seconds, bool recorded, bool traced);
  Measured measured() const;
  /// Mean time of the device, waiting for a host included.
  double in_place_s() const;

 private:
  std::vector<double> device_, host_, recorded_, traced_host_;
};

/// Collects the runs of one chain.
class Samples {
 public:
  explicit Samples(int stages) : stages_(stages) {}
  void add(const ChainRun& run, bool split);
  /// One per stage.
  std::vector<StageCost> costs() const;
  /// The variation of times on the device, by its records where there are any.
  ChainVariation variation() const;

 private:
  /// A run with whole backwards, and the one with split ones after it.
  struct Round {
    std::vector<MeasuredTimes> whole, split;
    bool recorded = false;
  };
  struct StageSamples {
    ActionSamples forward, backward, backward_input, backward_weight;
  };
  std::vector<StageSamples> stages_;
  std::vector<Round> rounds_;
};

}  // namespace penstock::profiler
