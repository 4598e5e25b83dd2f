// Runs operators of the graph through LibTorch's dispatcher.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace penstock {

/// Tensors by value id; undefined where there is none (yet, or any more).
using ValueTable = std::vector<at::Tensor>;

/// An operator bound to its kernel: schema looked up, defaults filled in, constant arguments boxed.
/// The operator must outlive it.
class PreparedOperator {
 public:
  /// Throws InputError naming an operator that LibTorch does not have, or an argument that its
  /// schema does not take, with the remedy.
  PreparedOperator(const Graph& graph, const Operator& op, at::Device device);

  /// Reads its inputs from `values` and writes its outputs there; `batch` gives the symbolic sizes.
  /// Runs without gradients where the export did, and under autocast where it did (casts are not
  /// cached; a region for the CPU applies to any device). A random operator draws the same numbers
  /// whatever the strides of its inputs, which a value loses when it is sent between stages. Throws
  /// std::runtime_error with the operator's name and module before the kernel's own message.
  void run(ValueTable& values, int64_t batch) const;

  /// The values that it changes in place: by its schema, or a batch norm's running statistics.
  const std::vector<ValueId>& writes() const { return writes_; }
  /// Is its output the first of these?
  bool returns_written() const;
  const Operator& op() const { return *op_; }

 private:
  void bind(const Graph& graph, const Argument& argument, size_t position);
  void place_factory(const std::vector<bool>& given);
  void bind_autocast(const Graph& graph);
  void check_complete(const Graph& graph, const std::vector<bool>& given) const;
  c10::IValue input(const ArgumentValue& value, const c10::Type& type, ValueTable& values,
                    int64_t batch) const;
  void store_results(const std::vector<c10::IValue>& results, ValueTable& values) const;

  /// An autocast region and its type.
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
  bool random_, is_product_;
  std::optional<Region> autocast_;
};

/// `aten::linear (linear_3) in layers.3.linear1`, for messages.
std::string describe(const Operator& op);

}  // namespace penstock
