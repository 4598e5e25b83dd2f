// Values that penstock::all_gather_again makes (graph/sharding/collectives.hpp): autograd keeps the
// rank's part alone, and has it gathered again where a backward needs the whole.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/stack.h>

#include <map>
#include <memory>

#include "backend/operators/tensor_group.hpp"

namespace penstock {

/// A value that was gathered, shared by all that autograd saves of it.
class GatheredAgain {
 public:
  GatheredAgain(at::Tensor own, const sharding::Layout& from, const sharding::Layout& to,
                TensorGroup group)
      : own_(std::move(own)), from_(from), to_(to), group_(std::move(group)) {}

  /// One more saved tensor of it, and one less; `turns`: how often a backward has asked for that.
  void add() { ++waiting_[0]; }
  void remove(int turns) { --waiting_[turns]; }
  /// The whole value, gathered where it is not there; undefined unless `needed`. It stays until all
  /// that is saved of it has had as many turns: a backward gathers it once.
  at::Tensor take_turn(int turns, bool needed);

  const at::Tensor& own() const { return own_; }

 private:
  const at::Tensor own_;
  const sharding::Layout from_, to_;
  const TensorGroup group_;
  std::map<int, int> waiting_;  // by turns that they have had
  at::Tensor whole_;
};

/// Behind a tensor that is such a value, or a view of one; null for any other.
std::shared_ptr<GatheredAgain> gathered_again(const at::Tensor& tensor);

/// While it lives, what the operator that this thread runs on these arguments saves of such values
/// is saved as a part.
class SavesParts {
 public:
  /// `product`: the gradient of a factor does not depend on that factor.
  SavesParts(const torch::jit::Stack& arguments, bool product);
  ~SavesParts();
  SavesParts(const SavesParts&) = delete;
  SavesParts& operator=(const SavesParts&) = delete;

 private:
  const bool here_;
};

}  // namespace penstock
