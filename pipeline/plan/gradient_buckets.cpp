#include "pipeline/plan/gradient_buckets.hpp"

#include <algorithm>
#include <compare>
#include <functional>
#include <map>

#include "base/dtype.hpp"
#include "pipeline/job/parameters.hpp"
#include "pipeline/plan/sharing.hpp"

namespace penstock {

namespace {

struct Gradient {
  int tensor = 0;
  OperatorId first_use = 0;
};

/// The stages whose ranks sum the gradient of a tensor, ascending.
struct SummingStages {
  std::vector<int> stages;
  bool transmitted = false;  // to the first of them, by ranks that do not sum
};

/// By tensor the stages that sum it, for all tensors that stages of `rank` hold.
std::map<int, SummingStages> summing_stages(const Slicing& slicing,
                                            const std::vector<int>& rank_of_stage,
                                            const std::set<int>& trained, int rank) {
  std::map<int, SummingStages> result;
  for (size_t stage = 0; stage < slicing.stages.size(); ++stage) {
    if (rank_of_stage[stage] != rank) continue;
    for (const int tensor : slicing.stages[stage].tensors) {
      if (trained.contains(tensor)) result[tensor] = {{static_cast<int>(stage)}};
    }
  }
  for (const Slicing::Shared& shared : slicing.shared) {
    const auto found = result.find(shared.tensor);
    if (found == result.end()) continue;
    found->second = {shared.stages, shared.transmitted};
    if (shared.transmitted) found->second.stages.resize(1);
  }
  return result;
}

/// The first operator of a stage that uses each tensor with data: what is computed from parameters
/// alone passes their gradients on.
class FirstUses {
 public:
  FirstUses(const Graph& model, const Slicing& slicing) : model_(model), slicing_(slicing) {}

  /// The tensor's first operator in any of these stages; 0 where none uses it so.
  OperatorId of(int tensor, const std::vector<int>& stages) {
    OperatorId first = static_cast<OperatorId>(model_.operators.size());
    for (const int stage : stages) {
      const auto& uses = of_stage(stage);
      const auto found = uses.find(tensor);
      first = std::min(first, found == uses.end() ? 0 : found->second);
    }
    return first;
  }

 private:
  const std::map<int, OperatorId>& of_stage(int stage) {
    const auto [known, added] = known_.try_emplace(stage);
    if (added) find(stage, known->second);
    return known->second;
  }

  void find(int stage, std::map<int, OperatorId>& uses) {
    std::map<ValueId, std::set<int>> from;  // of values made of parameters: which
    for (const OperatorId id : slicing_.stages[static_cast<size_t>(stage)].operators) {
      const Operator& op = model_.operators[static_cast<size_t>(id)];
      std::set<int> read;
      bool alone = true;
      for (const ValueId value : op.reads()) {
        const int tensor = model_.values[static_cast<size_t>(value)].tensor;
        const auto made = from.find(value);
        if (tensor >= 0) read.insert(tensor);
        if (made != from.end()) read.insert(made->second.begin(), made->second.end());
        alone &= tensor >= 0 || made != from.end();
      }
      for (const ValueId output : op.outputs) {
        if (alone && output >= 0 && !read.empty()) from[output] = read;
      }
      for (const int tensor : read) {
        if (!alone) uses.try_emplace(tensor, id);
      }
    }
  }

  const Graph& model_;
  const Slicing& slicing_;
  std::map<int, std::map<int, OperatorId>> known_;
};

DType gradient_type(const Job& job, const StoredTensor& tensor) {
  return has_master(job, tensor) ? DType::float32 : tensor.dtype;
}

/// Fills buckets like `like` with the gradients, which are in order.
void fill(const GradientBucket& like, const std::vector<Gradient>& gradients, const Plan& plan,
          const Graph& model, std::vector<GradientBucket>& buckets) {
  std::map<std::pair<DType, DType>, size_t> open;  // by type of the gradient, of the parameter
  for (const auto& [tensor, first_use] : gradients) {
    const StoredTensor& stored = model.tensors[static_cast<size_t>(tensor)];
    const DType dtype = gradient_type(plan.job, stored);
    const auto [at, added] = open.try_emplace({dtype, stored.dtype}, buckets.size());
    if (added) {
      buckets.push_back(like);
      buckets.back().dtype = dtype;
    }
    GradientBucket& bucket = buckets[at->second];
    bucket.tensors.push_back(tensor);
    bucket.bytes += gradient_bytes(plan.job, stored);
    bucket.first_use = first_use;
    if (bucket.bytes >= plan.all_reduce.bucket_bytes) open.erase(at);
  }
}

/// All gradients of a bucket have this in common; buckets are ordered by it.
struct BucketKind {
  bool shared = false;
  int before = 0;            // the last stage that holds them, negative
  std::vector<int> holders;  // ranks of one pipeline
  bool over_parts = false;   // summed over tensor groups, too
  std::vector<int> stages;   // of the rank; empty where shared
  auto operator<=>(const BucketKind&) const = default;
};

/// The kind of bucket for a tensor that the rank holds and sums.
BucketKind kind_of(const SummingStages& summing, const std::vector<int>& rank_of_stage, int rank) {
  std::set<int> holders;
  BucketKind kind;
  for (const int stage : summing.stages) {
    const int holder = rank_of_stage[static_cast<size_t>(stage)];
    holders.insert(holder);
    if (holder == rank) kind.stages.push_back(stage);
  }
  kind.holders.assign(holders.begin(), holders.end());
  kind.shared = summing.transmitted || holders.size() > 1;
  kind.before = -(kind.shared || kind.stages.empty() ? summing.stages : kind.stages).back();
  if (kind.shared) kind.stages.clear();
  return kind;
}

/// Equal parts begin, as gradients do, where vector kernels expect it: the optimizer's steps of
/// parts then have the bits of steps of whole tensors.
void place_gradients(const Graph& model, GradientBucket& bucket) {
  const int64_t step = gradient_alignment_bytes / size_bytes(bucket.dtype);
  const auto aligned = [](int64_t elements, int64_t to) { return (elements + to - 1) / to * to; };
  for (const int tensor : bucket.tensors) {
    const int64_t elements = model.tensors[static_cast<size_t>(tensor)].elements();
    bucket.places.push_back({bucket.elements, elements});
    bucket.elements = aligned(bucket.elements + elements, step);
  }
  if (bucket.sharded)
    bucket.elements = aligned(bucket.elements, step * static_cast<int64_t>(bucket.ranks.size()));
}

/// How many ranks of the run sum a kind of bucket.
int64_t ranks_summing(const BucketKind& kind, const Plan& plan) {
  return plan.data_parallel * std::ssize(kind.holders) *
         (kind.over_parts ? plan.tensor_parallel : 1);
}

/// The ranks that sum it with a rank of that part.
std::vector<int> summing_ranks(const BucketKind& kind, const Plan& plan, int part) {
  const int parts = static_cast<int>(plan.tensor_parallel),
            ranks_of_replica = plan.rank_at({1, 0, 0});
  std::vector<int> all;
  all.reserve(static_cast<size_t>(ranks_summing(kind, plan)));
  for (int replica = 0; replica < plan.data_parallel; ++replica) {
    const int first = replica * ranks_of_replica;
    for (const int holder : kind.holders) {
      for (int other = 0; other < parts; ++other) {
        if (kind.over_parts || other == part) all.push_back(first + holder * parts + other);
      }
    }
  }
  return all;
}

}  // namespace

std::vector<GradientBucket> gradient_buckets(const Plan& plan, const Graph& model,
                                             const Slicing& slicing, const std::set<int>& trained,
                                             int rank) {
  const std::vector<int> rank_of_stage = ranks_of_stages(plan);
  const auto [replica, own, part] = plan.place_of(rank);
  FirstUses first_uses(model, slicing);
  std::map<BucketKind, std::vector<Gradient>> groups;
  for (const auto& [tensor, summing] : summing_stages(slicing, rank_of_stage, trained, own)) {
    BucketKind kind = kind_of(summing, rank_of_stage, own);
    kind.over_parts = model.tensors[static_cast<size_t>(tensor)].sums_over_parts;
    const bool sums = std::ranges::binary_search(kind.holders, own);
    if (!sums || ranks_summing(kind, plan) < 2) continue;
    // Ranks of one pipeline that share parameters order these alike: their own stages differ.
    groups[kind].push_back({tensor, kind.shared ? 0 : first_uses.of(tensor, kind.stages)});
  }
  std::vector<GradientBucket> buckets;
  for (auto& [kind, gradients] : groups) {
    std::ranges::stable_sort(gradients, std::greater{}, &Gradient::first_use);
    fill({.ranks = summing_ranks(kind, plan, part),
          .stages = kind.stages,
          .tensors = {},
          .shared = kind.shared,
          .sharded = plan.optimizer_state == OptimizerState::sharded},
         gradients, plan, model, buckets);
  }
  for (GradientBucket& bucket : buckets) place_gradients(model, bucket);
  return buckets;
}

std::set<int> trainable_tensors(const Graph& model) {
  std::set<int> tensors;
  for (size_t tensor = 0; tensor < model.tensors.size(); ++tensor) {
    if (model.tensors[tensor].requires_grad) tensors.insert(static_cast<int>(tensor));
  }
  return tensors;
}

}  // namespace penstock
