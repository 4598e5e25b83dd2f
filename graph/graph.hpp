// The operator graph of a model, read from a `.pt2` without LibTorch, and the analyses of it.
//
// This file has the graph itself, without weights.
#pragma once

#include <complex>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/dtype.hpp"
#include "graph/expressions/expression.hpp"

namespace penstock {

using ValueId = int;
using OperatorId = int;

/// A tensor that the graph computes, reads or is given as input.
struct Value {
  enum class Kind { user_input, tensor, intermediate };
  std::string name;  // `linear_3`, unique in the graph
  Kind kind = Kind::intermediate;
  DType dtype = DType::float32;
  std::vector<Expression> shape;
  OperatorId producer = -1;  // of an intermediate
  int tensor = -1;           // index in Graph::tensors for Kind::tensor
  int64_t elements(int64_t batch) const;
  int64_t bytes(int64_t batch) const;
  std::string type() const;  // `float32 [batch, 512]`
};

/// A parameter, buffer or constant: a strided view of a storage that a file in the zip holds.
struct StoredTensor {
  enum class Kind { parameter, buffer, constant };
  Kind kind = Kind::parameter;
  std::string name;                  // the first of its names, as named_parameters() reports it
  std::vector<std::string> aliases;  // further names of the same tensor (tied parameters)
  bool persistent = true;            // false for a buffer left out of state dictionaries
  bool requires_grad = false;
  bool sums_over_parts = false;  // each rank of a tensor group has a term of its gradient
  DType dtype = DType::float32;
  std::vector<int64_t> sizes, strides;
  int64_t storage_offset = 0;  // in elements
  std::string file;            // zip member with the whole storage; empty when exported on meta
  int64_t elements() const;
  int64_t bytes() const;                   // of the tensor, not of its storage
  std::vector<std::string> names() const;  // all of them
  bool in_state_dict() const;              // of its module
};

struct None {
  bool operator==(const None&) const = default;
};
struct TensorRef {
  ValueId value;
  bool operator==(const TensorRef&) const = default;
};
/// A list of tensors; absent entries as in `index(x, [None, i])`.
struct TensorList {
  std::vector<std::optional<ValueId>> values;
};
struct MemoryFormat {
  int schema_value;
};  // 1 contiguous, 2 channels last, 3 channels last 3d, 4 preserve
struct Layout {
  int schema_value;
};  // 7 strided
struct Device {
  std::string type;
};

/// An argument as written in the export. Integers that depend on the batch are Expressions;
/// sizes never appear as operators or values of the graph.
using ArgumentValue =
    std::variant<None, TensorRef, TensorList, bool, int64_t, double, std::complex<double>,
                 Expression, std::string, std::vector<Expression>, std::vector<double>,
                 std::vector<bool>, std::vector<std::string>, DType, MemoryFormat, Layout, Device>;

/// Arguments equal to their default are left out by the exporter.
struct Argument {
  std::string name;  // as in the operator's schema
  ArgumentValue value;
  bool keyword = false;  // given by name, not by position
};

/// A region of torch.autocast: the device it is for, and the type that it casts to.
struct Autocast {
  std::string device;
  std::optional<DType> dtype;  // unless it is the device's own
};

struct Operator {
  std::string name;      // of its first output (`linear_3`), unique; what a plan's `begin` may name
  std::string target;    // `aten::linear`
  std::string overload;  // "" for default, else `Tensor`
  std::vector<Argument> arguments;
  std::vector<ValueId> outputs;  // flattened; -1 for an output that is not a tensor
  bool returns_list = false;     // the outputs are one list, not a tuple
  /// Module calls from the root inwards: `layers`, `layers.3`, `layers.3.linear1`; the second call
  /// of a module reads `iter_block@1`. Without the root.
  std::vector<std::string> modules;
  bool grad_enabled = true;          // false inside a no-grad region
  std::optional<Autocast> autocast;  // inside a region where it is enabled
  /// In a graph made of another, its number there, by which it draws the same random numbers.
  OperatorId original = -1;
  bool by_part = false;  // draws for a part of a tensor, other numbers than for other parts
  /// Values it reads, each once, in argument order.
  std::vector<ValueId> reads() const;
};

/// The module of a call: `iter_block` of `iter_block@1`, and of `iter_block`.
std::string module_of_call(const std::string& call);

/// A user output: a tensor (also an input or a parameter), or a plain value.
struct Output {
  std::string name;  // `output`, or the key or position path in a structured output
  ArgumentValue value;
  /// In the graph of a part: the split in which it has it, as sharding::Layout::str() says it, for
  /// a loss that is computed so; empty: it has it whole.
  std::string held = {};
};

/// At the end of a call, buffer `tensor` takes `value`.
struct BufferUpdate {
  int tensor;
  ValueId value;
};

/// Evaluation mode as the exporter found it: the graph has the model in training mode.
struct Evaluation {
  struct Change {
    std::string op;     // Operator::name
    Argument argument;  // and the value that it has in evaluation mode
  };
  std::vector<Change> changes;
  std::string differs;  // why they do not give what model.eval() computes; empty: they do
};

/// Guarantees: operators are in the export's topological order, every id is in range, every value
/// read is produced before (checked by the reader).
struct Graph {
  std::vector<Value> values;
  std::vector<Operator> operators;
  std::vector<ValueId> inputs;  // user inputs that are tensors, in order
  std::vector<StoredTensor> tensors;
  std::vector<Output> outputs;
  std::vector<BufferUpdate> updates;
  /// Where the model's code calls pipe_split(): the operators that come next, ascending, each once.
  std::vector<OperatorId> markers;
  int64_t example_batch = 1;  // the batch at export; the only possible one if !dynamic
  bool dynamic_batch = false;
  int64_t min_batch = 1, max_batch = INT64_MAX;
  bool layers = false;  // a table of layers (pipeline/layers/): each operator is one, and a unit
  std::optional<bool> batch_coupled;  // do samples of a batch influence each other? as export found
  std::optional<Evaluation> evaluation;  // nothing: the file says nothing of it
  std::string path;                      // the file that was read
  std::string sha256;                    // of the whole file

  /// The value of the first output, which the loss is made of; none where that is no tensor.
  std::optional<ValueId> first_output() const;
  std::map<std::string, int> tensor_by_name() const;  // first names and aliases
  /// For each value the operators that read it, ascending.
  std::vector<std::vector<OperatorId>> consumers() const;
};

}  // namespace penstock
