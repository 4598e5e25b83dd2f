#include "planner/rank_model.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "graph/cuts/module_cuts.hpp"
#include "graph/sharding/local_graph.hpp"
#include "pipeline/sharding/group_completion.hpp"
#include "simulator/costs/group_profile.hpp"
#include "simulator/network/grouped.hpp"

namespace penstock {

namespace {

Graph part_of(const Graph& model, const GroupCosts& costs) {
  const int64_t batch = costs.microbatches.front().microbatch;
  return sharding::local_graph(model, group_completion(model, costs.sharding, batch, costs.parts))
      .graph;
}

std::optional<Cluster> groups_of(const Cluster* cluster, int parts) {
  if (!cluster) return std::nullopt;
  return grouped(*cluster, parts);
}

std::vector<OperatorId> begins(const PlanningInputs& inputs, const PlanRequest& request) {
  return request.split.empty()
             ? outside_whole_modules(inputs.model, inputs.units, request.whole_modules)
             : manual_begins(inputs.model, request.split);
}

/// One rank sends nothing, and its profile need not know a link.
Network network(const Profile& profile, const Cluster* cluster, const PlanRequest& request) {
  return request.ranks == 1 ? Network() : plan_network(profile, cluster);
}

/// Has any node the devices of a group?
bool has_room(const Cluster* cluster, int parts) {
  if (!cluster) return true;
  if (cluster->nodes.empty()) return cluster->ranks >= parts;
  return std::ranges::any_of(cluster->nodes,
                             [&](const NodeKind& node) { return node.devices >= parts; });
}

}  // namespace

RankModel::Group::Group(const Profile& whole, const Graph& model, const Cluster* devices,
                        const GroupCosts& costs)
    : graph(part_of(model, costs)),
      cluster(groups_of(devices, costs.parts)),
      profile(group_profile(whole, costs, graph, cluster ? &*cluster : nullptr)) {}

RankModel::RankModel(const Profile& profile, const Graph& model, const Cluster* cluster,
                     const PlanRequest& request, const GroupCosts* group)
    : group_(group ? std::make_unique<const Group>(profile, model, cluster, *group) : nullptr),
      analysis_(analyse(group_ ? group_->graph : model)),
      inputs_{
          .model = group_ ? group_->graph : model,
          .analysis = analysis_,
          .profile = group_ ? group_->profile : profile,
          .cluster = group_ && cluster ? &*group_->cluster : cluster,
          .network = penstock::network(group_ ? group_->profile : profile,
                                       group_ && cluster ? &*group_->cluster : cluster, request),
          .units = unit_begins(group_ ? group_->graph : model, analysis_),
          .parts = group ? group->parts : 1,
          .sharding = group ? group->sharding : sharding::Pins()},
      chain_(inputs_.model, analysis_, begins(inputs_, request)) {}

std::vector<std::unique_ptr<const RankModel>> rank_models(const Profile& profile,
                                                          const Graph& model,
                                                          const Cluster* cluster,
                                                          const PlanRequest& request) {
  const auto& wanted = request.tensor_parallel;
  std::vector<std::unique_ptr<const RankModel>> models;
  const auto add = [&](const GroupCosts* group) {
    models.push_back(std::make_unique<const RankModel>(profile, model, cluster, request, group));
  };
  if (wanted.value_or(1) == 1) add(nullptr);
  for (const GroupCosts& group : profile.groups) {
    if (wanted ? *wanted == group.parts : has_room(cluster, group.parts)) add(&group);
  }
  if (models.empty())
    throw InputError("--tensor-parallel",
                     fmt::format("{} knows nothing of tensor groups of {}", profile.path, *wanted),
                     fmt::format("Profile the job with --tensor-parallel {}.", *wanted));
  return models;
}

}  // namespace penstock
