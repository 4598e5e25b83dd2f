#include "planner/layouts/request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "graph/analysis/coupling.hpp"
#include "graph/cuts/cuts.hpp"
#include "pipeline/program/schedule.hpp"

namespace penstock {

namespace {

constexpr int default_ranks = 2;

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

PlanRequest completed(PlanRequest request) {
  if (request.split.empty()) return request;
  if (!request.stages_per_rank) {
    int each = 1;  // or as many as a schedule that was named always runs
    for (const std::string& name : request.schedules) {
      if (name == adaptive_schedule) continue;
      each = std::max(each, find_schedule(name, "--schedule").stages_per_rank);
    }
    request.stages_per_rank = each;
  }
  if (!request.data_parallel) request.data_parallel = 1;
  return request;
}

PlanRequest within_table(PlanRequest request, const Profile& profile, const Graph& model,
                         std::vector<std::string>& warnings) {
  if (!model.layers) return request;
  if (!profile.microbatches.front().knows_split_backward() && request.schedules.empty()) {
    for (const Schedule& schedule : schedules())
      if (!schedule.split_backward) request.schedules.emplace_back(schedule.name);
    warnings.push_back(fmt::format(
        "{} gives backwards as a whole, so schedules that divide them (zero bubble, adaptive) are "
        "left out; `backward_input` and `backward_weight` of each layer include them",
        model.path));
  }
  const bool sums = std::ranges::any_of(model.tensors, [](const StoredTensor& tensor) {
    return tensor.requires_grad && tensor.bytes() > 0;
  });
  if (sums) return request;
  if (request.data_parallel.value_or(1) > 1)
    throw InputError(
        "--data-parallel",
        fmt::format("{} does not say how many bytes of gradients replicas sum", model.path),
        "Give `gradient` of each layer, or leave --data-parallel out.");
  request.data_parallel = 1;
  return request;
}

int choose_devices(const PlanRequest& request, const Cluster* cluster, int chain_units) {
  const bool manual = !request.split.empty();
  const auto replicas = static_cast<int>(request.data_parallel.value_or(1));
  const int each = request.stages_per_rank.value_or(1);
  const int needed = manual ? (chain_units + each - 1) / each * replicas : replicas;
  const int otherwise = manual    ? needed
                        : cluster ? cluster->ranks
                                  : std::max(default_ranks, needed);
  const int devices = request.ranks.value_or(otherwise);
  if (devices < 1)
    throw InputError("--ranks", fmt::format("{} is too few", devices), "Use 1 or more.");
  if (manual && chain_units % each != 0)
    throw InputError(
        "--split",
        fmt::format("the split makes {} stages, which are not {} for each rank", chain_units, each),
        fmt::format("Split into a multiple of {} stages.", each));
  if (manual && devices != needed)
    throw InputError("--split",
                     fmt::format("the split makes {} stages for {} ranks in all, but --ranks is {}",
                                 chain_units, needed, devices),
                     fmt::format("Use --ranks {} or leave it out.", needed));
  if (devices < needed)
    throw InputError("--data-parallel",
                     fmt::format("{} replicas need more than {} ranks", replicas, devices),
                     fmt::format("Use at least --ranks {}.", needed));
  if (cluster && devices > cluster->ranks)
    throw InputError(manual ? "--split" : "--ranks",
                     fmt::format("{} ranks, but {} has {}", devices, cluster->path, cluster->ranks),
                     fmt::format("Use at most {}.", cluster->ranks));
  if (each > chain_units)
    throw InputError(
        "--stages-per-rank",
        fmt::format("{}, but the model divides into {}", format_number(each, "stage"),
                    format_number(chain_units, "unit")),
        fmt::format("Use at most {}, or name cuts within units with --split.", chain_units));
  return devices;
}

void check_optimizer_state(const PlanRequest& request, const Profile& profile, const Graph& model) {
  if (request.optimizer_state != OptimizerState::sharded) return;
  const std::string place = "--optimizer-state";
  if (model.layers)
    throw InputError(place,
                     "a table of layers does not say which of a layer's bytes are the optimizer's",
                     "Leave it out, or plan from a profile.");
  if (profile.job.forward_only)
    throw InputError(place, "inference has no optimizer", "Leave it out, or --forward-only.");
  if (request.data_parallel == 1)
    throw InputError(place, "it is sharded over replicas, and there is to be one",
                     "Leave it out, or ask for more (--data-parallel).");
}

void check_coupling(const Graph& model, const Analysis& analysis, const PlanRequest& request,
                    std::vector<std::string>& warnings) {
  const std::vector<Coupling> found = couplings(model, analysis);
  if (!model.batch_coupled && found.empty()) {
    warnings.push_back(
        fmt::format("{} does not say whether the samples of a batch influence each other; if they "
                    "do, the number of "
                    "microbatches changes the training (tools/export_model.py finds out)",
                    model.path));
    return;
  }
  if (found.empty() && !*model.batch_coupled) return;
  std::string where = model.path;
  if (!found.empty()) where += " (" + describe(model, found.front()) + ")";
  if (request.microbatches || request.allow_batch_coupling) {
    warnings.push_back(fmt::format(
        "the samples of a batch influence each other in {}: training depends on the number of "
        "microbatches",
        where));
    return;
  }
  throw InputError(
      "--microbatches",
      fmt::format("the samples of a batch influence each other in {}, so the number of "
                  "microbatches changes the training",
                  where),
      "Choose it with --microbatches N, or let any be chosen with --allow-batch-coupling.");
}

}  // namespace penstock
