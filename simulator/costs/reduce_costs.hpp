// Costs of summing gradients over replicas and over the ranks that share a parameter, and to
// send out the values of parameters that are transmitted.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "pipeline/plan/gradient_buckets.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/plan/sharing.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/network/network.hpp"

namespace penstock {

/// Each bucket of gradients (pipeline/plan/gradient_buckets.hpp) takes an all-reduce over its
/// ranks. Of a transmitted parameter the owner receives a gradient from each of the others, one
/// after the other, adding it to its own, and after its OPT sends each the value; they send one and
/// receive one. Where the optimizer's state is sharded a bucket takes a reduce-scatter, over Gloo
/// as much as an all-reduce, and after OPT an all-gather of its parameters. Messages go over the
/// slowest way that any replica has. In a plan with tensor groups equal parts do so, and all parts
/// for what Graph::tensors says is summed over them; the cluster is then a grouped one. All of it
/// outlives this.
class ReduceCosts {
 public:
  ReduceCosts(const Plan& plan, const Graph& model, const Slicing& slicing, const Profile& profile,
              const Cluster* cluster);

  /// Does that rank of the pipeline have the optimizer's state of a tensor that it holds?
  bool steps(int tensor, int rank) const;
  /// A parameter that several stages of a rank share counts in the first of them.
  void add(int stage, StageCosts& costs);

  /// The part of a stage's sharded buckets that a rank steps, and the memory that it takes for
  /// that, in the replica that has most.
  struct Shard {
    int64_t tensors = 0, bytes = 0;  // of parameters
    int64_t state_bytes = 0, padding_bytes = 0;
    int64_t largest_bytes = 0;  // of the gradient of one tensor's part
  };
  Shard shard(int stage);

 private:
  struct Sharing {
    int tensor;
    bool transmitted;
    Holders holders;
    std::map<int, int> first_stage_of_rank;
  };
  const std::vector<GradientBucket>& buckets(int rank);
  bool counts_in(const GradientBucket& bucket, int stage) const;
  void add_shard(const GradientBucket& bucket, int rank, Shard& shard) const;
  static int64_t padding_bytes(const GradientBucket& bucket, int64_t parameter, int64_t gradient);
  int64_t parameter_bytes(const GradientBucket& bucket) const;
  double collective_s(const GradientBucket& bucket, int64_t bytes, double share);
  bool on_one_machine(const std::vector<int>& ranks) const;
  double share_of(const GradientBucket& bucket) const;
  SumCosts sum_costs(const GradientBucket& bucket, int stage);
  void add_left(const GradientBucket& bucket, int stage, SumCosts& sum) const;
  const Network& network(const Link& link, std::optional<Network>& made);
  Route way(int from, int to);
  const Link& ring_link(const std::vector<int>& ranks);
  double message_s(int from, int to, int64_t bytes);
  void transmit(const Sharing& shared, int rank, StageCosts& costs);

  const Plan& plan_;
  const int ranks_;
  const Graph& model_;
  const Slicing& slicing_;
  const Profile& profile_;
  const Cluster* cluster_;
  const std::set<int> trained_;
  std::optional<Network> messages_, sums_;
  std::map<int, std::vector<GradientBucket>> buckets_;  // by rank
  std::map<std::vector<int>, Link> ring_links_;         // by ranks of the run
  std::vector<Sharing> shared_;                         // between ranks
  std::map<int, int> owner_;                            // of what is transmitted, by tensor
};

}  // namespace penstock
