// The gradients that a rank sums with other ranks, in buckets: what one collective sums. The
// simulator predicts them, the executor runs them. As in PyTorch's DistributedDataParallel (Li et
// al., 2020) a bucket is filled in the order in which gradients become final.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "pipeline/plan/plan.hpp"

namespace penstock {

/// In a bucket each gradient begins at a multiple of it: what vector kernels expect.
inline constexpr int64_t gradient_alignment_bytes = 64;

/// The place of a gradient in its bucket, in elements.
struct GradientPlace {
  int64_t begin = 0, elements = 0;
};

struct GradientBucket {
  std::vector<int> ranks;    // of the run: those that hold its parameters; ascending, two at least
  std::vector<int> stages;   // of the rank: those that use them; ascending; empty where `shared`
  std::vector<int> tensors;  // indices in Graph::tensors, as a backward makes them final
  DType dtype = DType::float32;  // of the gradients
  int64_t bytes = 0;
  /// Several ranks of a pipeline hold these parameters: summed after all backwards.
  bool shared = false;
  /// The backward of a stage makes the bucket final with that of this operator, its first user.
  OperatorId first_use = 0;
  /// Each rank updates one of as many equal parts as there are ranks (tensor_parts.hpp).
  bool sharded = false;
  std::vector<GradientPlace> places = {};  // of `tensors`
  int64_t elements = 0;                    // with the padding behind gradients
};

/// The buckets of `rank` of the run; `trained`: the tensors that take part. Equal parts of replicas
/// sum, and all parts where each has a term (StoredTensor::sums_over_parts). Of a parameter that is
/// transmitted the owners of all replicas sum. Parameters of the same ranks, stages and type share
/// buckets; one is full with plan.all_reduce.bucket_bytes or more.
///
/// First those that only replicas share, of later stages first; then those of several ranks of a
/// pipeline, in the global order: descending by the last stage that holds them, then ascending by
/// the ranks that do, those of equal parts before those over parts. Every rank sees its buckets of
/// the latter kind in that order, so that overlapping groups cannot deadlock. All ranks of a bucket
/// see the same tensors in it.
std::vector<GradientBucket> gradient_buckets(const Plan& plan, const Graph& model,
                                             const Slicing& slicing, const std::set<int>& trained,
                                             int rank);

/// The trainable tensors of a model.
std::set<int> trainable_tensors(const Graph& model);

}  // namespace penstock
