#include "planner/rank_model.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"
#include "graph/cuts/module_cuts.hpp"
#include "graph/sharding/local_graph.hpp"
#include "pipeline/sharding/group_completion.hpp"
#include "planner/open/in_parallel.hpp"
#include "simulator/costs/group_profile.hpp"
#include "simulator/network/grouped.hpp"

namespace penstock {

namespace {

std::shared_ptr<const Graph> part_of(const Graph& model, const LossSpec& loss,
                                     const GroupCosts& costs) {
  const int64_t batch = costs.microbatches.front().microbatch;
  const auto completion = group_completion(model, loss, costs.sharding, batch, costs.parts);
  return std::make_shared<const Graph>(sharding::local_graph(model, completion).graph);
}

/// The part of a profile that all groups have in common.
Profile without_sizes(Profile profile) {
  profile.microbatches.clear();
  profile.groups.clear();
  return profile;
}

std::optional<Cluster> groups_of(const Cluster* cluster, int parts) {
  if (!cluster) return std::nullopt;
  return grouped(*cluster, parts);
}

std::vector<OperatorId> begins(const PlanningInputs& inputs, const PlanRequest& request) {
  return request.split.empty()
             ? outside_whole_modules(inputs.model, begins_of(inputs.units), request.whole_modules)
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
                        const GroupCosts& costs, std::shared_ptr<const Graph> known)
    : graph(known ? std::move(known) : part_of(model, whole.job.loss, costs)),
      cluster(groups_of(devices, costs.parts)),
      profile(group_profile(whole, costs, *graph, cluster ? &*cluster : nullptr)) {}

RankModel::RankModel(const Profile& profile, const Graph& model, const Cluster* cluster,
                     const PlanRequest& request, const GroupCosts* group,
                     std::shared_ptr<const Graph> graph)
    : group_(group
                 ? std::make_unique<const Group>(profile, model, cluster, *group, std::move(graph))
                 : nullptr),
      analysis_(analyse(group_ ? *group_->graph : model)),
      inputs_{
          .model = group_ ? *group_->graph : model,
          .analysis = analysis_,
          .profile = group_ ? group_->profile : profile,
          .cluster = group_ && cluster ? &*group_->cluster : cluster,
          .network = penstock::network(group_ ? group_->profile : profile,
                                       group_ && cluster ? &*group_->cluster : cluster, request),
          .units = units(group_ ? *group_->graph : model, analysis_),
          .parts = group ? group->parts : 1,
          .sharding = group ? group->sharding : sharding::Pins()},
      chain_(inputs_.model, analysis_, begins(inputs_, request)) {}

std::shared_ptr<const Graph> RankModel::graph_of(const GroupCosts& group) const {
  const bool same =
      group_ && group.parts == inputs_.parts && group.sharding == inputs_.sharding &&
      group.microbatches.front().microbatch == inputs_.profile.microbatches.front().microbatch;
  return same ? group_->graph : nullptr;
}

RankModels rank_models(const Profile& profile, const Graph& model, const Cluster* cluster,
                       const PlanRequest& request, const RankModels& before) {
  const auto& wanted = request.tensor_parallel;
  std::vector<const GroupCosts*> groups;
  if (wanted.value_or(1) == 1) groups.push_back(nullptr);
  for (const GroupCosts& group : profile.groups) {
    if (wanted ? *wanted == group.parts : has_room(cluster, group.parts)) groups.push_back(&group);
  }
  if (groups.empty())
    throw InputError("--tensor-parallel",
                     fmt::format("{} knows nothing of tensor groups of {}", profile.path, *wanted),
                     fmt::format("Profile the job with --tensor-parallel {}.", *wanted));
  const Profile common = without_sizes(profile);
  RankModels models(groups.size());
  in_parallel(groups.size(), request.threads, [&](size_t i) {
    std::shared_ptr<const Graph> graph;
    for (const auto& earlier : before)
      if (groups[i] && !graph) graph = earlier->graph_of(*groups[i]);
    models[i] = std::make_shared<const RankModel>(groups[i] ? common : profile, model, cluster,
                                                  request, groups[i], std::move(graph));
  });
  return models;
}

}  // namespace penstock
