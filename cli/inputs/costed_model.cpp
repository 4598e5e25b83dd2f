#include "cli/inputs/costed_model.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"
#include "cli/files/file_kind.hpp"
#include "cli/inputs/survival.hpp"
#include "pipeline/job/parameters.hpp"
#include "pipeline/layers/layer_model.hpp"
#include "pipeline/plan/tensor_parallel.hpp"
#include "simulator/costs/forward_costs.hpp"
#include "simulator/costs/replays.hpp"

namespace penstock::cli {

namespace {

CostedModel read_trained(const std::filesystem::path& path) {
  if (file_kind(path) == FileKind::layers) {
    const LayerTable table = read_layers(path);
    return {layer_profile(table), layer_graph(table)};
  }
  CostedModel costed{read_profile(path), {}};
  costed.model = read_model(costed.profile.job);
  return costed;
}

}  // namespace

CostedModel read_costs(const std::filesystem::path& path, CudaGraphs graphs, bool forward_only,
                       const std::string& survive) {
  CostedModel costed = read_trained(path);
  costed.profile = with_replays(std::move(costed.profile), graphs);
  costed.profile.job.forward_only = forward_only;
  count_snapshots(survive, costed.profile.device.kind, costed.profile.job);
  if (!forward_only) return costed;
  costed.model = for_inference(std::move(costed.model));
  costed.profile = forward_costs(std::move(costed.profile), costed.model);
  return costed;
}

Graph model_of(const Plan& plan) {
  if (!plan.layers) return read_model(plan.job);
  Graph model = layer_graph(read_layers(plan.job.model));
  return plan.job.forward_only ? for_inference(std::move(model)) : model;
}

Graph rank_model_of(const Plan& plan) {
  Graph model = model_of(plan);
  check_fingerprint(plan, model);
  return planned_model(plan, std::move(model)).graph;
}

Profile profile_of(const Plan& plan) {
  return plan.layers ? layer_profile(read_layers(plan.profile->path))
                     : read_profile(plan.profile->path);
}

void require_model(const Plan& plan, const std::string& what) {
  if (!plan.layers) return;
  throw InputError(plan.path,
                   fmt::format("the plan is of a table of layers, {}, and {} needs a model",
                               plan.profile->path, what),
                   "Export the model (docs/models.md) and profile it; such a plan can be "
                   "simulated, shown, and exported to Megatron.");
}

}  // namespace penstock::cli
