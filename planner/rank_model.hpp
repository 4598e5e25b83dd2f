// A model as its ranks run it: whole, or in the parts of tensor groups.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planner/layouts/evaluate.hpp"
#include "planner/layouts/request.hpp"
#include "planner/model/model_chain.hpp"

namespace penstock {

/// Profile, model and cluster outlive it, and it stays where it is.
class RankModel {
 public:
  /// The model as groups of ranks with those costs run it, or, of none, the whole one. `graph`:
  /// that of such a group, where it is known. Throws InputError where the cluster has no room for
  /// it.
  RankModel(const Profile& profile, const Graph& model, const Cluster* cluster,
            const PlanRequest& request, const GroupCosts* group,
            std::shared_ptr<const Graph> graph = nullptr);
  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;

  int parts() const { return inputs_.parts; }
  /// As a rank has them: its cluster is a grouped one.
  const PlanningInputs& inputs() const { return inputs_; }
  const ModelChain& chain() const { return chain_; }
  /// The graph that ranks of such a group run, where these are of one; null otherwise.
  std::shared_ptr<const Graph> graph_of(const GroupCosts& group) const;

 private:
  /// A group's own graph, cluster and profile.
  struct Group {
    Group(const Profile& profile, const Graph& model, const Cluster* cluster,
          const GroupCosts& costs, std::shared_ptr<const Graph> known);
    const std::shared_ptr<const Graph> graph;
    const std::optional<Cluster> cluster;
    const Profile profile;
  };
  const std::unique_ptr<const Group> group_;
  const Analysis analysis_;
  const PlanningInputs inputs_;
  const ModelChain chain_;
};

using RankModels = std::vector<std::shared_ptr<const RankModel>>;

/// All that the request allows, the whole model first: in its tensor groups those of the profile
/// that nodes have devices for. Graphs of groups that are among `before`, which are of the same
/// model, are not made again. Throws InputError where it asks for groups that are none of these.
RankModels rank_models(const Profile& profile, const Graph& model, const Cluster* cluster,
                       const PlanRequest& request, const RankModels& before = {});

}  // namespace penstock
