// Splits with one stage per rank and whole backwards: the sharpest bounds there are.
#pragma once

#include "planner/bounds/chain_memory.hpp"
#include "planner/splits/split_space.hpp"

namespace penstock {

class ChainSpace : public SplitSpace {
 public:
  ChainSpace(ChainBound time, ChainMemory memory)
      : time_(std::move(time)), memory_(std::move(memory)) {}

  int units() const override { return time_.units(); }
  int stages() const override { return time_.ranks(); }
  Prefix extend(const Prefix& known, int begin, int end, int left) const override;
  double min_s(const Prefix& known, int begin, int left) const override {
    return time_.least(known.path, begin, left);
  }
  int64_t min_bytes(const Prefix& known, int begin, int left) const override;
  double split_s(const std::vector<int>& begins) const override { return time_.split(begins); }
  using SplitSpace::min_bytes;
  using SplitSpace::min_s;

 private:
  ChainBound time_;
  ChainMemory memory_;
};

}  // namespace penstock
