// Runs operators of the graph through LibTorch's dispatcher.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace penstock {

/// Tensors by value; an undefined tensor is one that is not there (yet, or any more).
using Environment = std::vector<at::Tensor>;

/// An operator bound to its kernel: schema looked up, defaults filled in, constant arguments boxed.
/// The operator must outlive it.
class PreparedOperator {
 public:
  /// Throws InputError naming an operator that LibTorch does not have, or an argument that its
  /// schema does not take, with the cure.
  PreparedOperator(const Graph& graph, const Operator& op, at::Device device);

  /// Reads its inputs from `environment` and writes its outputs there; `batch` gives the symbolic
  /// sizes. Runs without gradients where the export did, and under autocast (which casts anew for
  /// each operator; a region for the CPU is one for whatever device this is). What a random
  /// operator draws does not depend on the strides of its inputs, which a value loses on its way
  /// between stages. Throws std::runtime_error with the operator's name and module before the
  /// kernel's own message.
  void run(Environment& environment, int64_t batch) const;

  /// Values that it changes in place: by its schema, or the running statistics of a batch norm.
  const std::vector<ValueId>& writes() const { return writes_; }
  /// Is its output the first of them?
  bool returns_written() const;
  const Operator& op() const { return *op_; }

 private:
  void bind(const Graph& graph, const Argument& argument, size_t position);
  void note_autocast(const Graph& graph);
  void check_complete(const Graph& graph, const std::vector<bool>& given) const;
  c10::IValue input(const ArgumentValue& value, const c10::Type& type, Environment& environment,
                    int64_t batch) const;
  void store_results(const std::vector<c10::IValue>& results, Environment& environment) const;

  /// A region of autocast with its type.
  struct Region {
    at::DeviceType device;
    at::ScalarType type;
  };

  const Operator* op_;
  at::Device device_;
  c10::OperatorHandle handle_;
  std::vector<c10::IValue> defaults_;  // one per schema argument
  struct Bound {
    size_t position;
    const ArgumentValue* value;
  };
  std::vector<Bound> bound_;  // arguments that are tensors or depend on the batch
  std::vector<ValueId> writes_;
  bool random_;
  std::optional<Region> autocast_;
};

/// `aten::linear (linear_3) in layers.3.linear1`, for messages.
std::string describe(const Operator& op);

}  // namespace penstock
