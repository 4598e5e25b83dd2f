// The runs of one chain, gathered and summarized.
#pragma once

#include <vector>

#include "backend/profiler/chain.hpp"
#include "pipeline/profile.hpp"

namespace penstock::profiler {

/// One stage of a chain, over all repetitions.
struct StageCost {
  ActionTimes times;
  StageBytes bytes;
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
    std::vector<double> forward, backward, backward_input, backward_weight;
    StageBytes bytes;
  };
  std::vector<Stage> stages_;
};

}  // namespace penstock::profiler
