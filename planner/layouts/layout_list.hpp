// All layouts that a request allows: millions on large clusters, so that only blocks are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "planner/layouts/evaluate.hpp"
#include "planner/layouts/layout.hpp"

namespace penstock {

/// All that a request allows on that many devices, a model of so many units: ranks x replicas <=
/// devices, replicas x microbatches x size = the global batch, sizes that were measured. In the
/// order that decides ties, by which they are numbered: along the chain before along branches (only
/// with `branches`); fewer ranks, fewer replicas, fewer stages per rank, the schedule table's order
/// with `adaptive` last, fewer microbatches, devices as in arrangement.hpp (of a cluster).
/// Shapes that a schedule does not run are among them.
class LayoutList {
 public:
  /// Inputs and request outlive it. Throws InputError for a request that no model meets
  /// (allowed.hpp: check_layouts).
  LayoutList(const PlanningInputs& inputs, const PlanRequest& request, int devices, int units,
             bool branches = false);

  /// Layouts that follow one another, alike in ranks and replicas.
  struct Block {
    int ranks;
    int64_t data_parallel;
    bool branches;
    std::vector<std::shared_ptr<const LayoutDevices>> devices;  // each layout has one of these
    size_t begin, end;                                          // their numbers
  };
  const std::vector<Block>& blocks() const { return blocks_; }
  std::vector<PipelineLayout> of(const Block& block) const;

  size_t size() const { return blocks_.empty() ? 0 : blocks_.back().end; }
  PipelineLayout operator[](size_t number) const;

 private:
  void add(Block block);
  /// Calls it with each layout of the block but for the devices.
  template <typename Call>
  void each(const Block& block, const Call& call) const;
  bool runs(const Schedule& schedule, const PipelineLayout& layout) const;
  bool repeats(const Schedule& schedule) const;
  bool worth(const PipelineLayout& layout, bool split_backward) const;
  bool takes_stages(int ranks, int stages_per_rank) const;

  const PlanningInputs& inputs_;
  const PlanRequest& request_;
  const int units_;
  std::vector<Block> blocks_;  // none is empty
};

}  // namespace penstock
