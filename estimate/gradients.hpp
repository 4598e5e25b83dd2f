// The gradients that are alive while a unit's backward runs.
#pragma once

#include <map>
#include <vector>

#include "estimate/model.hpp"

namespace penstock {

/// For each value the one whose gradient it shares: that of its only reader's result where that
/// one passes it on, or itself.
std::vector<ValueId> gradient_roots(const EstimateModel& model, int64_t batch);

/// Gradients by value, some of them sharing memory.
class LiveGradients {
 public:
  LiveGradients(const EstimateModel& model, int64_t batch) : model_(model), batch_(batch) {}

  /// A gradient that comes from outside costs nothing here; one that is allocated, its value's
  /// bytes.
  void enter(ValueId value, bool allocated);
  bool has(ValueId value) const { return storage_of_.contains(value); }
  /// Makes the gradients of the operands from those of the results, which stay.
  void make_operands(const Operator& op);
  /// Drops the gradients that sums have replaced, and those of the results.
  void drop_results(const Operator& op);
  int64_t bytes() const { return bytes_; }

 private:
  int make(int64_t bytes);
  void release(int storage);
  int handed_on(const Operator& op, ValueId operand);

  struct Storage {
    int64_t bytes = 0;
    int users = 0;
  };
  const EstimateModel& model_;
  const int64_t batch_;
  std::vector<Storage> storages_;
  std::map<ValueId, int> storage_of_;
  std::vector<int> replaced_;
  int64_t bytes_ = 0;
};

}  // namespace penstock
