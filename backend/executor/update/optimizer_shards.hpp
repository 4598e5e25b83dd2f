// The optimizer's state, shared out over the ranks that hold a parameter (`optimizer_state:
// sharded` in plan files; ZeRO stage 1, Rajbhandari et al., 2020): each steps its part of every
// bucket (pipeline/plan/tensor_parts.hpp), and all gather the parameters that result.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/stage/recipe/store.hpp"
#include "pipeline/plan/tensor_parts.hpp"

namespace penstock {

class OptimizerShards {
 public:
  /// Moves the parameters of sharded buckets into one tensor for each bucket, as their gradients
  /// lie. All references outlive it.
  OptimizerShards(const std::vector<GradientBucket>& buckets, TensorStore& store,
                  Communicator& communicator);

  /// The part that this rank steps of each tensor; a tensor that is not there it steps whole.
  const TensorParts& parts() const { return parts_; }
  /// Do this rank and that one step parts of the tensor?
  bool share(int tensor, int rank) const;
  /// Every rank gets what the others have stepped. All call it after their last OPT.
  void gather_parameters();
  /// Puts the parts of a tensor's state together at rank `receiver` of the run, flat and on the
  /// CPU; the other ranks that step a part of the tensor get nothing, and call it too, all in one
  /// order. `own`: this rank's part. `tag`: of the messages, which nothing else is sent beside.
  at::Tensor collect(int tensor, const at::Tensor& own, int receiver, int tag) const;

 private:
  struct Shard {
    const GradientBucket* bucket;
    at::Tensor parameters;
  };
  const TensorParts parts_;
  Communicator& communicator_;
  std::vector<Shard> shards_;
  std::map<int, std::pair<const GradientBucket*, size_t>> places_;  // by tensor: where it lies
};

/// The part of a tensor that is stepped here, flat; the tensor itself where that is the whole.
at::Tensor own_part(const TensorParts& parts, int index, const at::Tensor& tensor);

}  // namespace penstock
