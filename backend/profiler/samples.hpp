// The runs of one chain, gathered and summarized. Where some were traced the device's times are
// theirs, and the host's are of the others, if there are any; without any traced, a device's times
// include what it waited for its host.
#pragma once

#include <vector>

#include "backend/profiler/chain.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// One stage of a chain, over all repetitions.
struct StageCost {
  ActionTimes times;
  StageBytes bytes;
  double pass_s = 0;  // mean of F and B as they ran, waiting for a host included
};

/// Collects the times of one action.
class ActionSamples {
 public:
  /// `recorded`: the device's time is by its records; `traced`: these were made, which slowed the
  /// host.
  void add(const Seconds& seconds, bool recorded, bool traced);
  Measured measured() const;
  /// Mean of the device as it ran, waiting for a host included.
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

 private:
  struct Stage {
    ActionSamples forward, backward, backward_input, backward_weight;
    StageBytes bytes;
  };
  std::vector<Stage> stages_;
};

}  // namespace penstock::profiler
