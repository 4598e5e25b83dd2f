// Reads plans.
#include "pipeline/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/paths.hpp"
#include "base/quantity.hpp"
#include "base/yaml.hpp"
#include "pipeline/job/batch.hpp"
#include "pipeline/plan/sharing.hpp"
#include "pipeline/plan/tensor_parallel.hpp"
#include "pipeline/program/schedule.hpp"

namespace penstock {

namespace {

constexpr int64_t max_recomputed_units = 1'000'000;
constexpr int64_t max_replicas = 1'000'000;
constexpr double max_seconds = 1e18;

std::string parse_sha256(YamlMap& map, const std::string& key) {
  std::string text = map.text(key, "");
  const bool digest = text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
  if (!text.empty() && !digest) {
    throw InputError(map.place(key), fmt::format("`{}` is not a SHA-256", text),
                     "Write its 64 lower-case hexadecimal digits, as sha256sum prints them, or "
                     "remove the key.");
  }
  return text;
}

std::optional<FileRef> parse_file(YamlMap& map, const std::string& key,
                                  const std::filesystem::path& file) {
  if (!map.has(key)) return std::nullopt;
  YamlMap entry = map.map(key);
  FileRef result{absolute_path(file, entry.text("path")), parse_sha256(entry, "sha256")};
  entry.finish();
  return result;
}

Recompute parse_choices(YamlMap map) {
  Recompute recompute;
  for (const std::string& choice : map.keys()) recompute.layers[choice] = map.texts(choice);
  return recompute;
}

Recompute parse_recompute(YamlMap& map, bool layers) {
  if (!map.has("recompute")) return {};
  if (layers) return parse_choices(map.map("recompute"));
  if (map.has_list("recompute")) return {.units = map.texts("recompute")};
  const std::string text = map.text("recompute");
  if (text == "true" || text == "false") return {.whole = map.boolean("recompute", false)};
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
    return {.first_units = static_cast<int>(map.integer("recompute", 1, max_recomputed_units))};
  }
  throw InputError(
      map.place("recompute"), fmt::format("`{}` says not what to recompute", text),
      "Write false, true for the whole stage, how many of its units, or a list of them.");
}

StagePlan parse_stage(YamlMap map, int stages, bool layers) {
  StagePlan stage;
  stage.rank = static_cast<int>(map.integer("rank", 0, stages - 1));
  stage.recompute = parse_recompute(map, layers);
  if (map.has("modules") && map.has("begin")) {
    throw InputError(map.place("modules"), "a stage has `begin` or `modules`, not both",
                     "Keep `begin` for an interval of the model, `modules` for anything else.");
  }
  if (map.has("modules")) {
    stage.modules = map.texts("modules");
    if (stage.modules.empty()) {
      throw InputError(map.place("modules"), "the list is empty", "Name the stage's modules.");
    }
  } else {
    stage.begin = map.text("begin");
  }
  map.finish();
  return stage;
}

/// Ranks 0..P-1 each have a stage; the first interval begins where the model does.
void check_stages(const YamlMap& map, const std::vector<StagePlan>& stages) {
  std::vector<bool> used(stages.size());
  int ranks = 0;
  for (const StagePlan& stage : stages) {
    used[static_cast<size_t>(stage.rank)] = true;
    ranks = std::max(ranks, stage.rank + 1);
  }
  const auto idle = std::find(used.begin(), used.begin() + ranks, false) - used.begin();
  if (idle < ranks) {
    throw InputError(map.place("stages"), fmt::format("rank {} has no stage", idle),
                     fmt::format("Use the ranks 0..{} without a gap.", ranks - 2));
  }
  const auto interval =
      std::ranges::find_if(stages, [](const StagePlan& stage) { return stage.modules.empty(); });
  if (interval != stages.end() && !interval->begin.empty()) {
    throw InputError(map.place("stages"),
                     fmt::format("stage {} begins at `{}`, and nothing runs what comes before",
                                 interval - stages.begin(), interval->begin),
                     "The first stage begins with the model: write `begin: \"\"`.");
  }
}

std::vector<StagePlan> parse_stages(YamlMap& map, bool layers) {
  const std::vector<YamlMap> entries = map.maps("stages");
  if (entries.empty()) {
    throw InputError(map.place("stages"), "the list is empty",
                     "Write at least `- {rank: 0, begin: \"\"}`.");
  }
  std::vector<StagePlan> stages;
  stages.reserve(entries.size());
  for (const YamlMap& entry : entries) {
    stages.push_back(parse_stage(entry, static_cast<int>(entries.size()), layers));
  }
  check_stages(map, stages);
  return stages;
}

/// One for each rank of the run, none twice.
std::vector<int> parse_devices(YamlMap& map, int64_t ranks) {
  if (!map.has("devices")) return {};
  const std::vector<int64_t> listed = map.integers("devices", 0, max_ranks - 1);
  if (static_cast<int64_t>(listed.size()) != ranks) {
    throw InputError(map.place("devices"),
                     fmt::format("{} devices for {} ranks", listed.size(), ranks),
                     "Name one for each rank of the run, replica after replica.");
  }
  std::set<int64_t> seen;
  for (const int64_t device : listed) {
    if (seen.insert(device).second) continue;
    throw InputError(map.place("devices"), fmt::format("device {} is named twice", device),
                     "Each rank has a device of its own.");
  }
  return {listed.begin(), listed.end()};
}

std::map<std::string, std::string> parse_shared(YamlMap& map) {
  std::map<std::string, std::string> result;
  if (!map.has("shared_parameters")) return result;
  YamlMap shared = map.map("shared_parameters");
  for (const std::string& name : shared.keys()) {
    const std::string way = shared.text(name);
    if (way != way_replicate && way != way_transmit) {
      throw InputError(shared.place(name), fmt::format("`{}` is no way to share a parameter", way),
                       "Write replicate (each rank that uses it updates a copy) or transmit (the "
                       "first one updates it and sends the others its value).");
    }
    result[name] = way;
  }
  return result;
}

std::optional<Prediction> parse_prediction(YamlMap& map) {
  if (!map.has("prediction")) return std::nullopt;
  YamlMap entry = map.map("prediction");
  Prediction prediction;
  prediction.step_s = entry.number("step_s", 0, max_seconds, 0);
  prediction.expected_s = entry.number("expected_s", 0, max_seconds, 0);
  prediction.lower_bound_s = entry.number("lower_bound_s", 0, max_seconds, 0);
  prediction.bubble = entry.number("bubble", -1, 1, 0);
  if (entry.has("peak_memory_bytes")) {
    prediction.peak_memory_bytes = entry.integers("peak_memory_bytes", 0, INT64_MAX);
  }
  entry.finish();
  return prediction;
}

void parse_schedule(YamlMap& map, const std::filesystem::path& file, Plan& plan) {
  plan.schedule.clear();
  if (map.has("program")) plan.program = absolute_path(file, map.text("program"));
  if (!map.has("schedule") && !plan.program.empty()) return;
  plan.schedule = map.text("schedule");
  check_schedule(plan.schedule, map.place("schedule"));
  if (plan.program.empty()) return;
  throw InputError(map.place("program"), "a plan has `schedule` or `program`, not both",
                   "Remove one of them.");
}

}  // namespace

OptimizerState optimizer_state(const std::string& text, const std::string& place,
                               const Plan& plan) {
  if (text == "replicated") return OptimizerState::replicated;
  if (text != "sharded") {
    throw InputError(place, fmt::format("`{}` is no way to hold the optimizer's state", text),
                     "Write replicated (each replica has all of it) or sharded (each has an equal "
                     "part, and updates that part of the parameters).");
  }
  if (plan.data_parallel == 1) {
    throw InputError(place, "sharded over replicas, and there is one (data_parallel: 1)",
                     "Remove it, or plan for several replicas.");
  }
  if (plan.layers) {
    throw InputError(place,
                     "a table of layers does not say which of a layer's bytes are the optimizer's",
                     "Remove it, or plan from a profile.");
  }
  return OptimizerState::sharded;
}

std::string_view name(OptimizerState state) {
  return state == OptimizerState::sharded ? "sharded" : "replicated";
}

GradientSums parse_gradient_sums(YamlMap& map) {
  GradientSums sums;
  if (map.has("bucket")) {
    sums.bucket_bytes = parse_bytes(map.text("bucket"), map.place("bucket"));
    if (sums.bucket_bytes <= 0)
      throw InputError(map.place("bucket"), "an empty bucket", "Give its size, as in 25MB.");
  }
  sums.overlap = map.boolean("overlap", sums.overlap);
  return sums;
}

int Plan::ranks() const {
  int ranks = 0;
  for (const StagePlan& stage : stages) ranks = std::max(ranks, stage.rank + 1);
  return ranks;
}

int Plan::all_ranks() const { return static_cast<int>(ranks() * data_parallel * tensor_parallel); }

RankPlace Plan::place_of(int rank) const {
  const int parts = static_cast<int>(tensor_parallel), replica = ranks() * parts;
  return {rank / replica, rank % replica / parts, rank % parts};
}

int Plan::rank_at(const RankPlace& place) const {
  return (place.replica * ranks() + place.rank) * static_cast<int>(tensor_parallel) + place.part;
}

std::vector<int> rank_of_process(const Plan& plan) {
  std::vector<int> ranks(static_cast<size_t>(plan.all_ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (plan.devices.empty()) return ranks;
  std::ranges::sort(ranks, {}, [&](int rank) { return plan.devices[static_cast<size_t>(rank)]; });
  return ranks;
}

namespace {

/// In a step.
int64_t samples_of(const Plan& plan, const YamlMap& map) {
  const int64_t microbatches = plan.data_parallel * plan.microbatches;
  if (microbatches > max_samples / plan.microbatch)
    throw InputError(map.place("microbatches"),
                     fmt::format("a step has more than {} samples", max_samples),
                     "Give fewer microbatches, or smaller ones.");
  return microbatches * plan.microbatch;
}

}  // namespace

Plan read_plan(const std::filesystem::path& path) { return parse_plan(read_file(path), path); }

Plan parse_plan(const std::string& text, const std::filesystem::path& path) {
  YamlMap map = parse_yaml(text, path, "plan");
  const int64_t version = map.integer("version", 0, INT64_MAX);
  if (version != plan_version) {
    throw InputError(map.place("version"), fmt::format("version {} is unknown", version),
                     fmt::format("This Penstock reads version {}.", plan_version));
  }
  Plan plan;
  plan.path = path.string();
  plan.layers = map.has("layers");
  if (plan.layers) {
    plan.profile = parse_file(map, "layers", path);
    plan.job = job_of_layers(plan.profile->path);
    plan.model_sha256 = plan.profile->sha256;
  } else {
    plan.job = parse_job(map.map("job"), path);
    plan.model_sha256 = parse_sha256(map, "model_sha256");
    plan.profile = parse_file(map, "profile", path);
  }
  plan.job.forward_only = map.boolean("forward_only", false);
  plan.cluster = parse_file(map, "cluster", path);
  parse_schedule(map, path, plan);
  plan.microbatches = map.integer("microbatches", 1, max_microbatches);
  plan.microbatch = map.integer("microbatch", 1, max_samples);
  plan.data_parallel = map.integer("data_parallel", 1, max_replicas, 1);
  plan.stages = parse_stages(map, plan.layers);
  if (map.has("all_reduce")) {
    YamlMap sums = map.map("all_reduce");
    plan.all_reduce = parse_gradient_sums(sums);
    sums.finish();
  }
  if (map.has("optimizer_state"))
    plan.optimizer_state =
        optimizer_state(map.text("optimizer_state"), map.place("optimizer_state"), plan);
  plan.shared_parameters = parse_shared(map);
  parse_tensor_parallel(map, plan);
  if (plan.ranks() * plan.data_parallel * plan.tensor_parallel > max_ranks)
    throw InputError(map.place("data_parallel"),
                     fmt::format("{} replicas of {} ranks are more than {}", plan.data_parallel,
                                 plan.ranks() * plan.tensor_parallel, max_ranks),
                     "Give as many as there are devices.");
  plan.devices = parse_devices(map, plan.all_ranks());
  plan.memory_bytes = map.has("memory_bytes") ? map.integer("memory_bytes", 1, INT64_MAX) : 0;
  plan.prediction = parse_prediction(map);
  map.finish();
  if (plan.layers) plan.job.global_batch = samples_of(plan, map);
  check_batch({plan.job.global_batch, plan.data_parallel, plan.microbatches, plan.microbatch},
              map.place("microbatches"));
  return plan;
}

}  // namespace penstock
