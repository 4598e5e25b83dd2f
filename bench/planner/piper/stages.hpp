// All stages that a Piper plan can be made of, and how fast they can run.
#pragma once

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "bench/planner/cheapest.hpp"
#include "bench/planner/importers/piper.hpp"
#include "bench/planner/infinite.hpp"
#include "planner/model/downsets.hpp"

namespace penstock::bench {

/// Numbers of a node's variant in a stage.
struct StageVariant {
  double shared_s = 0;       // compute and transfers of a sample, to be divided by d
  double synchronize_s = 0;  // of all parameters per sample, to be multiplied by (d - 1)/d
  double bytes_per_sample = 0, bytes = 0;

  double time_s(int data_parallel) const;
};

class PiperStages {
 public:
  /// It outlives this.
  explicit PiperStages(const PiperGraph& graph);

  const PiperGraph& graph() const { return graph_; }
  /// Variants of each node of the stage at tensor parallel degree t, or empty where a node has
  /// none.
  std::vector<std::vector<StageVariant>> variants(const std::vector<int>& nodes,
                                                  int tensor_parallel) const;
  /// The same for a choice of d and y.
  std::vector<std::vector<Variant>> variants(const std::vector<int>& nodes, int tensor_parallel,
                                             int data_parallel, int samples_in_flight) const;

 private:
  double moved_bytes(int node, const PiperVariant& variant, const std::vector<bool>& inside) const;

  const PiperGraph& graph_;
  std::vector<std::vector<int>> edges_;  // by node: those out of and into it
};

/// A stage and its tensor parallel degree.
class StageOption {
 public:
  /// Its arguments outlive it.
  StageOption(const PiperStages& stages, std::vector<int> nodes, int tensor_parallel,
              const std::vector<int>& data_parallel);

  bool possible() const { return least_.shared_s < infinite; }
  int tensor_parallel() const { return tensor_parallel_; }
  const std::vector<int>& nodes() const { return nodes_; }
  /// It takes no less for the i-th of `data_parallel`, however much memory there is.
  double least_s(int i) const;
  /// A time that it can have with y samples in flight: one within the bound where there is one,
  /// but not always the least.
  double time_s(int i, int samples_in_flight, double bound_s) const;
  /// The one with the least time.
  Choice choice(int i, int samples_in_flight) const;

 private:
  std::vector<std::vector<Variant>> at(int i, int samples_in_flight) const;

  const PiperStages* stages_;
  const std::vector<int>* data_parallel_;
  std::vector<int> nodes_;
  int tensor_parallel_;
  StageVariant least_{.shared_s = infinite};  // sums over the nodes of the least of each
  mutable int too_many_ = std::numeric_limits<int>::max();  // samples in flight do not fit
  mutable std::unordered_map<int64_t, TimeRange> known_s_;  // by i and y
};

}  // namespace penstock::bench
