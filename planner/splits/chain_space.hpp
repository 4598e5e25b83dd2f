// Splits with one stage per rank and whole backwards: the sharpest bounds there are.
#pragma once

#include <algorithm>

#include "planner/bounds/chain_memory.hpp"
#include "planner/splits/split_space.hpp"

namespace penstock {

class ChainSpace : public SplitSpace {
 public:
  /// No split takes less than `least`.
  ChainSpace(ChainBound time, ChainMemory memory, SplitNeeds least = {})
      : time_(std::move(time)), memory_(std::move(memory)), least_(least) {}

  int units() const override { return time_.units(); }
  int stages() const override { return time_.ranks(); }
  Prefix extend(const Prefix& known, int begin, int end, int left) const override;
  double min_s(const Prefix& known, int begin, int left) const override {
    return std::max(time_.least(known.path, begin, left), least_.seconds);
  }
  int64_t min_bytes(const Prefix& known, int begin, int left) const override;
  double split_s(const std::vector<int>& begins) const override {
    return std::max(time_.split(begins), least_.seconds);
  }
  using SplitSpace::min_bytes;
  using SplitSpace::min_s;

 private:
  ChainBound time_;
  ChainMemory memory_;
  SplitNeeds least_;
};

}  // namespace penstock
