// All stages that a Piper plan can be made of, and how fast they can run.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "bench/planner/cheapest.hpp"
#include "bench/planner/importers/piper.hpp"
#include "planner/model/downsets.hpp"

namespace penstock::bench {

/// Numbers of a node's variant in a stage.
struct StageVariant {
  double shared_s = 0;       // compute and transfers of a sample, to be divided by d
  double synchronize_s = 0;  // of all parameters per sample, to be multiplied by (d - 1)/d
  double bytes_per_sample = 0, bytes = 0;
};

/// Variants of each node of the stage at tensor parallel degree t, or empty where a node has none.
std::vector<std::vector<StageVariant>> stage_variants(const PiperGraph& graph,
                                                      const std::vector<int>& nodes,
                                                      int tensor_parallel);

/// The same for a choice of d and y.
std::vector<std::vector<Variant>> at(const std::vector<std::vector<StageVariant>>& variants,
                                     int data_parallel, int samples_in_flight);

/// A stage and its tensor parallel degree.
class StageOption {
 public:
  StageOption(const PiperGraph& graph, std::vector<int> nodes, int tensor_parallel,
              const std::vector<int>& data_parallel);

  bool possible() const { return !variants_.empty(); }
  int tensor_parallel() const { return tensor_parallel_; }
  const std::vector<int>& nodes() const { return nodes_; }
  /// The least time if there were memory enough, for the i-th of `data_parallel`.
  double unlimited_s(int i) const { return unlimited_s_[i]; }
  /// The least time with y samples in flight.
  double time_s(int i, int samples_in_flight) const;
  Choice choice(int i, int samples_in_flight) const;

 private:
  double capacity_bytes_;
  std::vector<int> nodes_;
  int tensor_parallel_;
  std::vector<int> data_parallel_;
  std::vector<std::vector<StageVariant>> variants_;
  std::vector<double> unlimited_s_;
  mutable std::unordered_map<int64_t, double> known_s_;  // by i and y
};

}  // namespace penstock::bench
