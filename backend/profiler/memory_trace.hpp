// Memory of the whole model operator by operator, while it runs as one stage: what each does to
// the bytes held in F, B, I and W, and which values its backward keeps. Autograd tells which
// operator a node of its graph belongs to by the sequence number that it got in the forward.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "backend/device/device.hpp"
#include "backend/stage/observer.hpp"
#include "graph/graph.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

class MemoryTrace final : public ForwardObserver {
 public:
  /// Both outlive it.
  MemoryTrace(const Graph& graph, ComputeDevice& device);
  ~MemoryTrace() override;

  /// Everything until `end` is part of this action: one of HeldBytes. One trace at a time is
  /// between `begin` and `end`.
  void begin(MemoryChange HeldBytes::*action);
  void end();

  void before(OperatorId op, const std::vector<ValueId>& reads, const ValueTable& values) override;
  void after(OperatorId op, const std::vector<ValueId>& reads, const std::vector<ValueId>& outputs,
             const ValueTable& values) override;
  /// A node of autograd's graph is next.
  void run_node(int64_t sequence_number);

  /// By operator; without `output`.
  const std::vector<HeldBytes>& held() const { return held_; }
  const std::vector<ValueMemory>& values() const { return values_; }

 private:
  /// A result that something holds when its operator has run: autograd, or the forward itself to
  /// its end.
  struct Result {
    OperatorId op = 0;
    int number = 0;
    int64_t bytes = 0;
    c10::weak_intrusive_ptr<c10::StorageImpl> memory;
  };
  void enter(OperatorId op);
  void drop_unkept(OperatorId last);

  const Graph& graph_;
  ComputeDevice& device_;
  std::vector<HeldBytes> held_;
  std::vector<ValueMemory> values_;
  MemoryChange HeldBytes::*action_ = nullptr;
  OperatorId current_ = 0;
  int64_t level_ = 0;                         // when the current operator was entered
  std::map<uint64_t, OperatorId> sequences_;  // the first number of each operator
  std::vector<size_t> references_;            // to what the current operator reads
  std::vector<Result> results_;
  std::set<ValueId> at_end_;  // values that a forward holds to its end
};

}  // namespace penstock::profiler
