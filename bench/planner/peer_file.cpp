#include "bench/planner/peer_file.hpp"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "bench/planner/dapple/dapple.hpp"
#include "bench/planner/layers.hpp"
#include "bench/planner/max_load/max_load.hpp"
#include "bench/planner/pipedream.hpp"
#include "bench/planner/piper/piper.hpp"
#include "bench/planner/published.hpp"

namespace penstock::bench {

namespace {

constexpr int devices_per_machine = 8;

Setting default_setting(const PeerFile& file, const SettingOptions& options) {
  if (const auto* graph = std::get_if<PlacementGraph>(&file.graph)) {
    return {.objective = Objective::max_load,
            .devices = graph->accelerators,
            .cpus = graph->cpus,
            .memory_bytes = graph->accelerator_bytes};
  }
  if (const auto* graph = std::get_if<PiperGraph>(&file.graph)) {
    return {.objective = Objective::piper,
            .devices = graph->devices,
            .memory_bytes = graph->device_bytes,
            .bytes_per_s = graph->bytes_per_s,
            .batch = graph->batch};
  }
  const std::vector<Published> known = published(file.sha256);
  if (!known.empty()) return known.front().setting;
  if (options.profile_batch) return {.objective = Objective::dapple, .devices = 16};
  return {.objective = Objective::pipedream, .devices = 16, .bytes_per_s = 1e9};
}

void refuse_without_batch(const PeerFile& file, const Setting& setting) {
  if (setting.objective != Objective::dapple || setting.batch > 0) return;
  throw InputError(file.path, "DAPPLE's objective needs the batch of a step",
                   "Give it with --batch, or leave out --profile-batch for PipeDream's.");
}

/// `8-5-3`
template <class Stages, class Count>
std::string plan_text(const Stages& stages, const Count& count) {
  std::string text;
  for (const auto& stage : stages) text += (text.empty() ? "" : "-") + count(stage);
  return text;
}

PeerResult solve_layers(const LayerGraph& graph, const Setting& setting) {
  const LayerGraph placed = without_ends(graph);
  if (setting.objective == Objective::pipedream) {
    const PipeDreamPlan plan = solve_pipedream(placed, {setting.devices, setting.bytes_per_s});
    return {plan.batch_s,
            plan_text(plan.stages, [](const auto& s) { return std::to_string(s.replicas); }),
            plan.exact};
  }
  DappleSetting how{.profile_batch = setting.profile_batch, .batch = setting.batch};
  for (int left = setting.devices; left > 0; left -= devices_per_machine)
    how.machines.push_back(std::min(left, devices_per_machine));
  const DappleResult found = solve_dapple(dapple_model(placed, how), how);
  const auto devices = [](const DappleStage& stage) {
    int count = 0;
    for (const int each : stage.devices) count += each;
    return std::to_string(count);
  };
  return {found.speedup, plan_text(found.plan.stages, devices), found.exact};
}

PeerResult solve_placement(PlacementGraph graph, const Setting& setting) {
  graph.accelerators = setting.devices;
  graph.accelerator_bytes = setting.memory_bytes;
  const MaxLoadPlan plan = solve_max_load(graph);
  return {1e3 * plan.load_s,
          plan_text(plan.stages, [](const auto& s) { return std::string(s.cpu ? "CPU" : "1"); }),
          plan.exact};
}

PeerResult solve_piper_file(PiperGraph graph, const Setting& setting) {
  graph.devices = setting.devices;
  graph.device_bytes = setting.memory_bytes;
  graph.bytes_per_s = setting.bytes_per_s;
  graph.batch = setting.batch;
  const PiperPlan plan = solve_piper(graph);
  const auto devices = [](const PiperStage& stage) {
    return stage.tensor_parallel == 1
               ? std::to_string(stage.data_parallel)
               : fmt::format("{}x{}", stage.data_parallel, stage.tensor_parallel);
  };
  return {plan.sample_s, plan_text(plan.stages, devices), plan.exact};
}

}  // namespace

PeerFile parse_peer_file(const std::string& text, const std::string& path) {
  const std::string sum = sha256(text);
  if (is_layer_graph(text)) return {path, sum, parse_layer_graph(text, path)};
  const nlohmann::json document = parse_json(text, path);
  const JsonValue root(document, path);
  if (root.has("maxFPGAs")) return {path, sum, parse_placement_graph(text, path)};
  if (root.has("mbsInBatch")) return {path, sum, parse_piper_graph(text, path)};
  throw InputError(path, "JSON with neither `maxFPGAs` nor `mbsInBatch`",
                   "Give a layer graph of PipeDream or DAPPLE, or JSON of dnn-partitioning or "
                   "Piper.");
}

PeerFile read_peer_file(const std::string& path) { return parse_peer_file(read_file(path), path); }

std::vector<Setting> settings(const PeerFile& file, const SettingOptions& options) {
  std::vector<Setting> result;
  if (!options.any())
    for (const Published& one : published(file.sha256)) result.push_back(one.setting);
  if (!result.empty()) return result;
  result.push_back(with(default_setting(file, options), options, file.path));
  refuse_without_batch(file, result.back());
  return result;
}

PeerResult solve(const PeerFile& file, const Setting& setting) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu_start = std::clock();
  PeerResult result;
  if (const auto* layers = std::get_if<LayerGraph>(&file.graph))
    result = solve_layers(*layers, setting);
  else if (const auto* placement = std::get_if<PlacementGraph>(&file.graph))
    result = solve_placement(*placement, setting);
  else
    result = solve_piper_file(std::get<PiperGraph>(file.graph), setting);
  result.elapsed_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.cpu_s = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  return result;
}

}  // namespace penstock::bench
