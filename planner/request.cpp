#include "planner/request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/cuts.hpp"
#include "graph/error.hpp"

namespace penstock {

namespace {

constexpr int default_ranks = 2;

/// The search takes stage times for the same on every rank.
void require_equal_speed(const Cluster& cluster) {
  for (const NodeKind& node : cluster.nodes) {
    if (node.speed == 1) continue;
    throw InputError(cluster.path,
                     fmt::format("a device of {} times the profiled one's speed is simulated, but "
                                 "not searched yet",
                                 node.speed),
                     "Plan for equal devices, and simulate the plan on this cluster.");
  }
}

}  // namespace

void check_model(const Profile& profile, const Graph& model) {
  const auto complete = [&](const MicrobatchCosts& size) {
    return size.operators.size() == model.operators.size();
  };
  const bool fits = std::all_of(profile.microbatches.begin(), profile.microbatches.end(), complete);
  if (fits && profile.model_sha256 == model.sha256) return;
  throw InputError(profile.path, fmt::format("the profile is not of the model {}", model.path),
                   "Profile the job again, or restore the model that it was made for.");
}

std::vector<OperatorId> manual_begins(const Graph& model, const std::vector<std::string>& split) {
  std::set<OperatorId> begins{0};
  for (const std::string& point : split) {
    const std::vector<OperatorId> positions = split_positions(model, point);
    for (const OperatorId position : positions) {
      if (position > 0 && begins.insert(position).second) continue;
      throw InputError(
          "--split", fmt::format("{} adds no split", point),
          "It is where the model or a stage of another split point begins: leave it out.");
    }
    if (positions.empty())
      throw InputError("--split", fmt::format("{} is the end of the model", point),
                       "Leave it out.");
  }
  return {begins.begin(), begins.end()};
}

int choose_ranks(const PlanRequest& request, const Cluster* cluster, int chain_units) {
  const bool manual = !request.split.empty();
  const int otherwise = manual ? chain_units : cluster ? cluster->ranks : default_ranks;
  const int ranks = request.ranks.value_or(otherwise);
  if (ranks < 1) throw InputError("--ranks", fmt::format("{} is too few", ranks), "Use 1 or more.");
  if (manual && ranks != chain_units)
    throw InputError(
        "--split", fmt::format("the split makes {} stages, but --ranks is {}", chain_units, ranks),
        fmt::format("Use --ranks {} or leave it out.", chain_units));
  if (cluster) require_equal_speed(*cluster);
  if (cluster && ranks > cluster->ranks)
    throw InputError(manual ? "--split" : "--ranks",
                     fmt::format("{} ranks, but {} has {}", ranks, cluster->path, cluster->ranks),
                     fmt::format("Use at most {}.", cluster->ranks));
  if (ranks > chain_units)
    throw InputError(
        "--ranks", fmt::format("{} ranks, but the model divides into {} units", ranks, chain_units),
        fmt::format("Use at most {}, or name cuts within units with --split.", chain_units));
  return ranks;
}

void check_coupling(const Graph& model, const PlanRequest& request,
                    std::vector<std::string>& warnings) {
  if (!model.batch_coupled) {
    warnings.push_back(
        fmt::format("{} does not say whether the samples of a batch influence each other; if they "
                    "do, the number of "
                    "microbatches changes the training (tools/export_model.py finds out)",
                    model.path));
    return;
  }
  if (!*model.batch_coupled) return;
  if (request.microbatches || request.allow_batch_coupling) {
    warnings.push_back(fmt::format(
        "the samples of a batch influence each other in {}: training depends on the number of "
        "microbatches",
        model.path));
    return;
  }
  throw InputError(
      "--microbatches",
      fmt::format("the samples of a batch influence each other in {}, so the number of "
                  "microbatches changes the training",
                  model.path),
      "Choose it with --microbatches N, or let any be chosen with --allow-batch-coupling.");
}

}  // namespace penstock
