#include "cli/inputs/plan_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "base/error.hpp"
#include "pipeline/plan/sharing.hpp"
#include "pipeline/sharding/sharding_keys.hpp"

namespace penstock::cli {

namespace {

constexpr size_t explained_alternatives = 6;
/// Predictions that differ by less are taken to be equal.
constexpr double not_told_apart = 0.01;
constexpr double max_search_s = 7 * 24 * 3600;

PlanObjective objective(const std::string& name) {
  if (name == "throughput") return PlanObjective::throughput;
  if (name == "memory") return PlanObjective::memory;
  if (name == "cost") return PlanObjective::cost;
  throw InputError("--objective", fmt::format("there is no objective `{}`", name),
                   "Objectives: throughput, memory, cost. " +
                       did_you_mean(name, {"throughput", "memory", "cost"}));
}

PlanSharing sharing(const std::string& name) {
  if (name == "auto") return PlanSharing::automatic;
  if (name == way_replicate) return PlanSharing::replicate;
  if (name == way_transmit) return PlanSharing::transmit;
  throw InputError(
      "--shared-parameters", fmt::format("`{}` is no way to share a parameter", name),
      "Ways: replicate, transmit, auto. " + did_you_mean(name, {"replicate", "transmit", "auto"}));
}

/// Nothing stands for either.
std::optional<OptimizerState> optimizer_state(const PlanOptions& options) {
  const std::string& name = options.optimizer_state;
  if (name == "auto" || (name.empty() && !options.cluster.empty())) return std::nullopt;
  if (name == "replicated" || name.empty()) return OptimizerState::replicated;
  if (name == "sharded") return OptimizerState::sharded;
  throw InputError(
      "--optimizer-state", fmt::format("`{}` is no way to hold the optimizer's state", name),
      "Ways: replicated, sharded, auto. " + did_you_mean(name, {"replicated", "sharded", "auto"}));
}

/// Nothing stands for any number.
std::optional<int> tensor_parallel(const PlanOptions& options) {
  const std::string& text = options.tensor_parallel;
  if (text == "auto" || (text.empty() && !options.cluster.empty())) return std::nullopt;
  if (text.empty()) return 1;
  int parts = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parts);
  if (error == std::errc() && end == text.data() + text.size() && parts >= 1 &&
      parts <= max_tensor_parallel)
    return parts;
  throw InputError("--tensor-parallel", fmt::format("`{}` is no number of ranks", text),
                   fmt::format("Give 1 to {}, or auto.", max_tensor_parallel));
}

int64_t effort_of(double seconds) {
  if (seconds > 0 && seconds <= max_search_s)
    return static_cast<int64_t>(seconds * static_cast<double>(effort_per_second));
  throw InputError("--time", fmt::format("{} s is no time to search for", seconds),
                   "Give more than none and at most a week, like 1min.");
}

}  // namespace

PlanRequest plan_request(const PlanOptions& options) {
  PlanRequest request;
  request.ranks = options.ranks;
  request.schedules = options.schedules;
  request.microbatches = options.microbatches;
  request.stages_per_rank = options.stages_per_rank;
  request.data_parallel = options.data_parallel;
  request.tensor_parallel = tensor_parallel(options);
  request.memory_bytes = options.memory_bytes;
  request.split = options.split;
  request.objective = objective(options.objective);
  request.sharing = sharing(options.shared_parameters);
  request.optimizer_state = optimizer_state(options);
  request.contiguous = options.contiguous;
  request.whole_modules = options.whole_modules;
  if (!options.fastest) request.tolerance = not_told_apart;
  request.allow_batch_coupling = options.allow_batch_coupling;
  if (options.search_s) request.effort = effort_of(*options.search_s);
  request.alternatives = options.explain ? explained_alternatives : 0;
  request.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return request;
}

}  // namespace penstock::cli
