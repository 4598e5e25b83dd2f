#include "cli/prediction.hpp"

#include <filesystem>

#include "graph/error.hpp"
#include "graph/file.hpp"
#include "simulator/plan_costs.hpp"
#include "simulator/simulate.hpp"

namespace penstock::cli {

namespace {

/// A file that the plan names, by its path from here.
std::filesystem::path path_of(const Plan& plan, const FileRef& file) {
  return std::filesystem::path(plan.path).parent_path() / file.path;
}

Predicted simulate_plan(const Plan& plan, const Graph& model, const Slicing& slicing,
                        const Program& lowered) {
  const Profile profile = read_profile(path_of(plan, *plan.profile));
  std::optional<Cluster> cluster;
  if (plan.cluster) cluster = read_cluster(path_of(plan, *plan.cluster));
  const Cluster* on = cluster ? &*cluster : nullptr;
  const Simulation simulation =
      penstock::simulate(lowered, plan_costs(plan, model, slicing, profile, on),
                         plan_network(profile, on), {false, false});
  return {simulation.makespan_s, simulation.peak_memory_bytes, profile.probe};
}

}  // namespace

std::optional<Predicted> predict(const Plan& plan, const Graph& model, const Slicing& slicing,
                                 const Program& lowered, std::string& reason) {
  if (!plan.profile) {
    reason = "the plan names no profile";
    return std::nullopt;
  }
  try {
    return simulate_plan(plan, model, slicing, lowered);
  } catch (const InputError& error) {
    reason = error.what();
    return std::nullopt;
  }
}

}  // namespace penstock::cli
