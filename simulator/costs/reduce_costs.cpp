#include "simulator/costs/reduce_costs.hpp"

#include <algorithm>

#include "pipeline/job/parameters.hpp"
#include "simulator/costs/all_reduce.hpp"
#include "simulator/costs/plan_costs.hpp"

namespace penstock {

ReduceCosts::ReduceCosts(const Plan& plan, const Graph& model, const Slicing& slicing,
                         const Profile& profile, const Cluster* cluster)
    : plan_(plan), ranks_(plan.ranks()), model_(model), profile_(profile), cluster_(cluster) {
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

const AllReduce& ReduceCosts::how() const { return cluster_ ? cluster_->all_reduce : usual_; }

/// Made only where ranks sum something: a search asks for the costs of many plans.
const Network& ReduceCosts::network() {
  if (!network_) network_ = cluster_ ? Network(*cluster_) : reduce_link(profile_, nullptr);
  return *network_;
}

/// The slowest way in the ring of these ranks of the whole run.
Link ReduceCosts::ring_link(const std::vector<int>& ranks) {
  Link slowest = network().link();
  slowest.latency_s = 0;
  slowest.bandwidth = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Route route = network().route(ranks[i], ranks[(i + 1) % ranks.size()]);
    slowest.latency_s = std::max(slowest.latency_s, route.latency_s + route.propagation_s);
    if (route.bandwidth > 0 && (slowest.bandwidth <= 0 || route.bandwidth < slowest.bandwidth)) {
      slowest.bandwidth = route.bandwidth;
    }
  }
  return slowest;
}

/// Between two ranks of the pipeline, in the replica where it takes longest.
double ReduceCosts::message_s(int from, int to, int64_t bytes) {
  double longest_s = 0;
  for (int replica = 0; replica < plan_.data_parallel; ++replica) {
    const int first = replica * ranks_;
    const Route route = network().route(first + from, first + to);
    const double moving_s =
        route.bandwidth > 0 ? static_cast<double>(bytes) / route.bandwidth : 0.0;
    longest_s = std::max(longest_s, route.latency_s + route.propagation_s + moving_s);
  }
  return longest_s;
}

void ReduceCosts::add(int stage, int64_t gradient_bytes, StageCosts& costs) {
  for (const Sharing& shared : shared_) add_shared(shared, stage, costs);
  if (plan_.data_parallel == 1) return;
  const double shared_s = costs.reduce_s;
  std::vector<int> replicas;
  replicas.reserve(static_cast<size_t>(plan_.data_parallel));
  for (int replica = 0; replica < plan_.data_parallel; ++replica) {
    replicas.push_back(replica * ranks_ + plan_.stages[static_cast<size_t>(stage)].rank);
  }
  const BucketedAllReduce buckets =
      bucketed_all_reduce(how(), ring_link(replicas), gradient_bytes, plan_.data_parallel);
  costs.reduce_s += buckets.buckets * buckets.bucket_s;
  if (how().overlap && shared_s == 0) costs.reduce_buckets = buckets.buckets;
}

void ReduceCosts::add_shared(const Sharing& shared, int stage, StageCosts& costs) {
  const int rank = plan_.stages[static_cast<size_t>(stage)].rank;
  const auto mine = shared.first_stage_of_rank.find(rank);
  if (mine == shared.first_stage_of_rank.end() || mine->second != stage) return;
  if (shared.transmitted) return transmit(shared, rank, costs);
  std::vector<int> holders;
  holders.reserve(shared.first_stage_of_rank.size());
  for (const auto& [holder, first] : shared.first_stage_of_rank) holders.push_back(holder);
  costs.reduce_s +=
      all_reduce_s(how().algorithm, ring_link(holders),
                   gradient_bytes(plan_.job, model_.tensors[static_cast<size_t>(shared.tensor)]),
                   static_cast<int64_t>(holders.size()));
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
