#include "simulator/costs/reduce_costs.hpp"

#include <algorithm>

#include "base/dtype.hpp"
#include "pipeline/job/parameters.hpp"
#include "pipeline/plan/tensor_parts.hpp"
#include "simulator/costs/collectives.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "simulator/network/grouped.hpp"

namespace penstock {

ReduceCosts::ReduceCosts(const Plan& plan, const Graph& model, const Slicing& slicing,
                         const Profile& profile, const Cluster* cluster)
    : plan_(plan),
      ranks_(plan.ranks()),
      model_(model),
      slicing_(slicing),
      profile_(profile),
      cluster_(cluster),
      trained_(trainable_tensors(model)) {
  const std::vector<int> rank_of_stage = ranks_of_stages(plan);
  for (const Slicing::Shared& shared : slicing.shared) {
    Sharing sharing{shared.tensor, shared.transmitted, holders_of(shared, rank_of_stage), {}};
    if (sharing.holders.others.empty()) continue;
    for (const int stage : shared.stages) {
      sharing.first_stage_of_rank.try_emplace(rank_of_stage[static_cast<size_t>(stage)], stage);
    }
    if (shared.transmitted) owner_[shared.tensor] = sharing.holders.owner;
    shared_.push_back(std::move(sharing));
  }
}

bool ReduceCosts::steps(int tensor, int rank) const {
  const auto found = owner_.find(tensor);
  return found == owner_.end() || found->second == rank;
}

/// Made only where ranks exchange something: a search asks for the costs of many plans.
const Network& ReduceCosts::network(const Link& link, std::optional<Network>& made) {
  if (!made) made = cluster_ ? Network(*cluster_) : Network(link);
  return *made;
}

/// From a rank of the run to another. The network's ranks are tensor groups, between whose equal
/// parts it is.
Route ReduceCosts::way(int from, int to) {
  const int parts = static_cast<int>(plan_.tensor_parallel);
  if (from / parts != to / parts)
    return network(sum_link(profile_), sums_).route(from / parts, to / parts);
  const Link link = cluster_ ? group_link(*cluster_) : sum_link(profile_);
  return {link.latency_s, link.bandwidth, link.propagation_s, {}};
}

/// The slowest way in the ring of these ranks of the run.
const Link& ReduceCosts::ring_link(const std::vector<int>& ranks) {
  const auto [known, added] = ring_links_.try_emplace(ranks);
  if (!added) return known->second;
  Link& slowest = known->second;
  slowest = network(sum_link(profile_), sums_).link();
  slowest.latency_s = 0;
  slowest.bandwidth = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Route route = way(ranks[i], ranks[(i + 1) % ranks.size()]);
    slowest.latency_s = std::max(slowest.latency_s, route.latency_s + route.propagation_s);
    if (route.bandwidth > 0 && (slowest.bandwidth <= 0 || route.bandwidth < slowest.bandwidth)) {
      slowest.bandwidth = route.bandwidth;
    }
  }
  return slowest;
}

/// Between two ranks of the pipeline, in the replica where it takes longest.
double ReduceCosts::message_s(int from, int to, int64_t bytes) {
  const Network& network = this->network(message_link(profile_), messages_);
  double longest_s = 0;
  for (int replica = 0; replica < plan_.data_parallel; ++replica) {
    const int first = replica * ranks_;
    const Route route = network.route(first + from, first + to);
    const double moving_s =
        route.bandwidth > 0 ? static_cast<double>(bytes) / route.bandwidth : 0.0;
    longest_s = std::max(longest_s, route.latency_s + route.propagation_s + moving_s);
  }
  return longest_s;
}

const std::vector<GradientBucket>& ReduceCosts::buckets(int rank) {
  const auto [known, added] = buckets_.try_emplace(rank);
  if (added && (plan_.data_parallel > 1 || plan_.tensor_parallel > 1 || !shared_.empty()))
    known->second =
        gradient_buckets(plan_, model_, slicing_, trained_, plan_.rank_at({0, rank, 0}));
  return known->second;
}

bool ReduceCosts::counts_in(const GradientBucket& bucket, int stage) const {
  if (!bucket.shared) return bucket.stages.front() == stage;
  const int rank = plan_.stages[static_cast<size_t>(stage)].rank;
  for (const Slicing::Shared& shared : slicing_.shared) {
    if (shared.tensor != bucket.tensors.front()) continue;
    const auto first = std::ranges::find_if(shared.stages, [&](int holder) {
      return plan_.stages[static_cast<size_t>(holder)].rank == rank;
    });
    return first != shared.stages.end() && *first == stage;
  }
  return false;
}

void ReduceCosts::add(int stage, StageCosts& costs) {
  const int rank = plan_.stages[static_cast<size_t>(stage)].rank;
  for (const GradientBucket& bucket : buckets(rank)) {
    if (!counts_in(bucket, stage)) continue;
    const SumCosts sum = sum_costs(bucket, stage);
    if (plan_.all_reduce.overlap && !bucket.shared && sums_overlap(profile_, cluster_)) {
      costs.sums.push_back(sum);
    } else {
      costs.reduce_s += sum.sum_s;
    }
    if (bucket.sharded) costs.publish_s += collective_s(bucket, parameter_bytes(bucket), 0.5);
  }
  for (const Sharing& shared : shared_) {
    const auto first = shared.first_stage_of_rank.find(rank);
    if (!shared.transmitted || first == shared.first_stage_of_rank.end()) continue;
    if (first->second == stage) transmit(shared, rank, costs);
  }
}

ReduceCosts::Shard ReduceCosts::shard(int stage) {
  Shard shard;
  const int rank = plan_.stages[static_cast<size_t>(stage)].rank;
  for (const GradientBucket& bucket : buckets(rank)) {
    if (bucket.sharded && counts_in(bucket, stage)) add_shard(bucket, rank, shard);
  }
  return shard;
}

void ReduceCosts::add_shard(const GradientBucket& bucket, int rank, Shard& shard) const {
  const StoredTensor& first = model_.tensors[static_cast<size_t>(bucket.tensors.front())];
  const int64_t parameter = size_bytes(first.dtype), gradient = size_bytes(bucket.dtype);
  const int parts = static_cast<int>(plan_.tensor_parallel);
  int64_t held = 0, tensors = 0;
  for (size_t member = 0; member < bucket.ranks.size(); ++member) {
    if (bucket.ranks[member] / parts % ranks_ != rank) continue;
    int64_t elements = 0, of_tensors = 0;
    for (size_t i = 0; i < bucket.tensors.size(); ++i) {
      const int64_t part = part_of(bucket, i, member).elements();
      elements += part;
      of_tensors += part > 0 ? 1 : 0;
      shard.largest_bytes = std::max(shard.largest_bytes, part * gradient);
    }
    held = std::max(held, elements);
    tensors = std::max(tensors, of_tensors);
  }
  shard.tensors += tensors;
  shard.bytes += held * parameter;
  const int64_t state = training_bytes(plan_.job, first) - gradient_bytes(plan_.job, first);
  if (first.elements() > 0) shard.state_bytes += held * (state / first.elements());
  shard.padding_bytes += padding_bytes(bucket, parameter, gradient);
}

/// The gaps between and behind parameters, and behind all gradients.
int64_t ReduceCosts::padding_bytes(const GradientBucket& bucket, int64_t parameter,
                                   int64_t gradient) {
  int64_t elements = 0;
  for (const GradientPlace& place : bucket.places) elements += place.elements;
  const GradientPlace& last = bucket.places.back();
  const int64_t behind = (bucket.elements - last.begin - last.elements) * gradient;
  return (bucket.elements - elements) * parameter + behind - behind % gradient_alignment_bytes;
}

/// With the padding, which moves along.
int64_t ReduceCosts::parameter_bytes(const GradientBucket& bucket) const {
  const StoredTensor& first = model_.tensors[static_cast<size_t>(bucket.tensors.front())];
  return bucket.elements * size_bytes(first.dtype);
}

/// An all-reduce of so many bytes, or a share of it.
double ReduceCosts::collective_s(const GradientBucket& bucket, int64_t bytes, double share) {
  const AllReduce usual;
  return share * all_reduce_s((cluster_ ? cluster_->all_reduce : usual).algorithm,
                              ring_link(bucket.ranks), bytes,
                              static_cast<int64_t>(bucket.ranks.size()));
}

bool ReduceCosts::on_one_machine(const std::vector<int>& ranks) const {
  if (!cluster_ || cluster_->nodes.empty()) return false;
  const int parts = static_cast<int>(plan_.tensor_parallel);
  const auto node = [&](int rank) { return cluster_->place(rank / parts).node; };
  return std::ranges::all_of(ranks, [&](int rank) { return node(rank) == node(ranks.front()); });
}

/// The share of an all-reduce that it takes to sum a bucket.
double ReduceCosts::share_of(const GradientBucket& bucket) const {
  const bool scatters = has_reduce_scatter(profile_, cluster_, on_one_machine(bucket.ranks));
  return bucket.sharded && scatters ? 0.5 : 1;
}

SumCosts ReduceCosts::sum_costs(const GradientBucket& bucket, int stage) {
  const double share = share_of(bucket);
  const auto ranks = static_cast<int64_t>(bucket.ranks.size());
  SumCosts sum;
  sum.sum_s = collective_s(bucket, bucket.bytes, share);
  if (!cluster_)
    sum.compute_s = share * sum_compute_s_per_byte(profile_) * summed_bytes(bucket.bytes, ranks);
  if (!bucket.shared) add_left(bucket, stage, sum);
  return sum;
}

/// The backward goes from the last operator to the first, and runs the forward of a segment again
/// when it comes to it.
void ReduceCosts::add_left(const GradientBucket& bucket, int stage, SumCosts& sum) const {
  const StageSlice& slice = slicing_.stages[static_cast<size_t>(stage)];
  const MicrobatchCosts& measured = *profile_.at(plan_.microbatch);
  for (const OperatorId id : slice.operators) {
    if (id >= bucket.first_use) break;
    const ActionTimes& times = measured.operators[static_cast<size_t>(id)].times;
    const bool again = std::ranges::any_of(slice.recomputed, [&](const Segment& segment) {
      return segment.contains(id) && segment.end <= bucket.first_use;
    });
    sum.left_of_backward_s +=
        times.backward.mean_s + (again ? times.forward.mean_s : 0) + choice_s(slice, measured, id);
    sum.left_of_weight_s += times.backward_weight.mean_s;
  }
}

void ReduceCosts::transmit(const Sharing& shared, int rank, StageCosts& costs) {
  const StoredTensor& tensor = model_.tensors[static_cast<size_t>(shared.tensor)];
  const int64_t gradient = gradient_bytes(plan_.job, tensor);
  const int owner = shared.holders.owner;
  if (rank != owner) {
    costs.reduce_s += message_s(rank, owner, gradient);
    costs.publish_s += message_s(owner, rank, tensor.bytes());
    return;
  }
  for (const int other : shared.holders.others) {
    costs.reduce_s += message_s(other, owner, gradient) +
                      profile_.accumulate_s_per_byte * static_cast<double>(gradient);
    costs.publish_s += message_s(owner, other, tensor.bytes());
  }
  costs.transient_reduce_bytes = std::max(costs.transient_reduce_bytes, gradient);
}

}  // namespace penstock
