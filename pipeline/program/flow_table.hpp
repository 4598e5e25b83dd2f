// The flows between stages, indexed by stage, for lowering and checking.
#pragma once

#include <vector>

#include "pipeline/program/lowering.hpp"

namespace penstock {

/// Flows by number, ascending by (from, to), each pair once.
class FlowTable {
 public:
  /// Throws std::logic_error for a flow that does not go from an earlier to a later stage.
  FlowTable(const std::vector<Flow>& flows, const std::vector<int>& rank_of_stage);

  int size() const { return static_cast<int>(flows_.size()); }
  const Flow& operator[](int flow) const { return flows_[static_cast<size_t>(flow)]; }
  /// Both stages are on one rank: they exchange nothing.
  bool local(int flow) const { return local_[static_cast<size_t>(flow)]; }
  /// Flows out of a stage, ascending by consumer.
  const std::vector<int>& out_of(int stage) const { return out_[static_cast<size_t>(stage)]; }
  /// Flows into a stage, ascending by producer.
  const std::vector<int>& into(int stage) const { return into_[static_cast<size_t>(stage)]; }
  /// The flow between the two stages, or -1.
  int find(int from, int to) const;
  /// The flow that a SEND or RECV serves, or -1 if there is none (or no gradient in it).
  int served_by(const Action& transfer) const;

 private:
  std::vector<Flow> flows_;
  std::vector<bool> local_;
  std::vector<std::vector<int>> out_, into_;
};

}  // namespace penstock
