// Costs of summing gradients over replicas and over the ranks that share a parameter, and to
// send out the values of parameters that are transmitted.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/plan/sharing.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/network/network.hpp"

namespace penstock {

/// A replicated parameter takes an all-reduce over the ranks that hold it. Of a transmitted one the
/// owner receives a gradient from each of the others, one after the other, adding it to its own,
/// and after its OPT sends each the value; they send one and receive one. Messages go over the
/// slowest way that any replica has. All of it outlives this.
class ReduceCosts {
 public:
  ReduceCosts(const Plan& plan, const Graph& model, const Slicing& slicing, const Profile& profile,
              const Cluster* cluster);

  /// Does that rank of the pipeline have the optimizer's state of a tensor that it holds?
  bool steps(int tensor, int rank) const;
  /// `gradient_bytes`: of what the stage sums over replicas. Each shared parameter counts in the
  /// first stage of each rank that holds it.
  void add(int stage, int64_t gradient_bytes, StageCosts& costs);

 private:
  struct Sharing {
    int tensor;
    bool transmitted;
    Holders holders;
    std::map<int, int> first_stage_of_rank;
  };
  const AllReduce& how() const;
  const Network& network();
  Link ring_link(const std::vector<int>& ranks);
  double message_s(int from, int to, int64_t bytes);
  void add_shared(const Sharing& shared, int stage, StageCosts& costs);
  void transmit(const Sharing& shared, int rank, StageCosts& costs);

  const Plan& plan_;
  const int ranks_;
  const Graph& model_;
  const Profile& profile_;
  const Cluster* cluster_;
  const AllReduce usual_;
  std::optional<Network> network_;
  std::vector<Sharing> shared_;
  std::map<int, int> owner_;  // of what is transmitted, by tensor
};

}  // namespace penstock
