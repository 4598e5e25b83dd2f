// Runs operators of the graph through LibTorch's dispatcher.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

#include "graph/graph.hpp"

namespace penstock {

/// Tensors by value; an undefined tensor is one that is not there (yet, or any more).
using Environment = std::vector<at::Tensor>;

/// An operator bound to its kernel: schema looked up, defaults filled in, constant arguments boxed.
class PreparedOperator {
 public:
  /// Throws InputError naming an operator that LibTorch does not have, with the cure.
  PreparedOperator(const Graph& graph, const Operator& op, at::Device device);

  /// Reads its inputs from `environment` and writes its outputs there; `batch` gives the symbolic
  /// sizes.
  void run(Environment& environment, int64_t batch) const;

 private:
  const Operator* op_;
  c10::OperatorHandle handle_;
  std::vector<c10::IValue> defaults_;   // one per schema argument
  struct Bound { size_t position; const ArgumentValue* value; };
  std::vector<Bound> bound_;            // arguments that are tensors or depend on the batch
};

/// Does this operator draw random numbers? Then the generator is seeded just before it, from
/// (seed, step, replica x M + microbatch, operator's index in the whole graph).
struct RandomKey {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t microbatch = 0;  // replica x M + microbatch
};
/// 64 well-mixed bits (splitmix64 over the four numbers).
uint64_t operator_seed(const RandomKey& key, OperatorId op);

}  // namespace penstock
