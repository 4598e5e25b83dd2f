// The ranks that run operators on parts of tensors, and the conversions between them: the operators
// `penstock::all_gather` and so on of graph/sharding/collectives.hpp, with their gradients.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "backend/communication/communicator.hpp"
#include "graph/sharding/layout.hpp"

namespace penstock {

struct TensorGroup {
  Communicator* communicator = nullptr;
  std::vector<int> ranks{0};  // of the run, by part; ascending
  int part = 0;               // this rank's
  int parts() const { return static_cast<int>(ranks.size()); }
  /// Without a communicator a rank takes what it has itself for what the others have, and takes as
  /// much memory as among them.
  bool is_alone() const { return communicator == nullptr; }
  bool sends(const at::Tensor& tensor) const { return !is_alone() && tensor.numel() > 0; }
};

/// While it lives, conversions that this thread runs are among that group. Their backwards are,
/// too, on whatever thread they run. The group's communicator outlives both.
class InTensorGroup {
 public:
  explicit InTensorGroup(const TensorGroup& group);
  ~InTensorGroup();
  InTensorGroup(const InTensorGroup&) = delete;
  InTensorGroup& operator=(const InTensorGroup&) = delete;

 private:
  const TensorGroup* before_;
};

/// The group of this thread. Throws std::logic_error where it has none.
const TensorGroup& current_group();

/// Does this thread run operators for a group of several ranks?
bool in_tensor_group();

/// From what this rank holds of a value in one layout to what it holds in another; all ranks of the
/// group call it in one order. Without a gradient.
at::Tensor converted(const at::Tensor& own, const sharding::Layout& from,
                     const sharding::Layout& to, const TensorGroup& group);

/// Puts the parts of a tensor together at part 0, on the CPU; the others send theirs, wait until it
/// has been taken, and get an undefined tensor. Of one that each rank has whole part 0's is taken.
/// `tag`: of the messages, which nothing else is sent beside.
at::Tensor collected(const at::Tensor& own, const sharding::Layout& layout,
                     const TensorGroup& group, int tag);

}  // namespace penstock
