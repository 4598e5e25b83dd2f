// Reads and writes jobs.
#include "pipeline/job/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/paths.hpp"
#include "base/yaml.hpp"
#include "pipeline/job/data_keys.hpp"

namespace penstock {

namespace {

constexpr int64_t max_steps = 1'000'000'000'000;
constexpr const char* label_smoothing = "label_smoothing";
constexpr std::array loss_names{"cross_entropy", "mse", "bce_with_logits", "output"};
static_assert(loss_names.size() == static_cast<size_t>(Loss::output) + 1);  // in its order

Loss parse_loss_kind(YamlMap& map, const char* key) {
  const std::string text = map.text(key);
  const auto found = std::ranges::find(loss_names, text);
  if (found == loss_names.end()) {
    throw InputError(map.place(key), fmt::format("there is no loss `{}`", text),
                     "Write cross_entropy, mse, bce_with_logits, or output (the model's first "
                     "output is the loss).");
  }
  return static_cast<Loss>(found - loss_names.begin());
}

/// A name, or a mapping with settings.
LossSpec parse_loss(YamlMap& map) {
  if (!map.has_map("loss")) return parse_loss_kind(map, "loss");
  YamlMap own = map.map("loss");
  LossSpec loss = parse_loss_kind(own, "kind");
  if (own.has(label_smoothing) && loss.kind != Loss::cross_entropy) {
    throw InputError(own.place(label_smoothing),
                     fmt::format("{} has no `{}`", name(loss.kind), label_smoothing),
                     "Remove it, or write `kind: cross_entropy`.");
  }
  loss.label_smoothing = own.number(label_smoothing, 0, 1, 0);
  own.finish();
  return loss;
}

nlohmann::ordered_json loss_keys(const LossSpec& loss) {
  if (loss.label_smoothing == 0) return name(loss.kind);
  return {{"kind", name(loss.kind)}, {label_smoothing, loss.label_smoothing}};
}

Precision parse_precision(YamlMap& map) {
  if (!map.has("precision")) return Precision::model;
  const std::string text = map.text("precision");
  if (text == "bf16") return Precision::bf16;
  throw InputError(map.place("precision"), fmt::format("there is no precision `{}`", text),
                   "Write bf16, or remove the key: the model's own type is used.");
}

/// A run that ends within its warm-up never reaches its learning rate.
void require_warmup_ends(const Job& job, const std::string& place) {
  if (job.optimizer.warmup_steps <= job.steps) return;
  throw InputError(place,
                   fmt::format("{} steps of warm-up, but the job has {} steps",
                               job.optimizer.warmup_steps, job.steps),
                   "Warm up for fewer steps.");
}

}  // namespace

std::string_view name(Loss loss) { return loss_names[static_cast<size_t>(loss)]; }

Job parse_job(YamlMap map, const std::filesystem::path& file) {
  Job job;
  job.model = absolute_path(file, map.text("model"));
  job.loss = parse_loss(map);
  job.optimizer = parse_optimizer(map.map("optimizer"));
  job.precision = parse_precision(map);
  parse_data(map, file, job);
  if (map.has("validation")) job.validation = parse_validation(map.map("validation"), file, job);
  job.global_batch = map.integer("global_batch", 1, max_samples);
  job.steps = map.integer("steps", 1, max_steps, 1);
  job.seed = static_cast<uint64_t>(map.integer("seed", 0, INT64_MAX, 0));
  require_warmup_ends(job, map.place("optimizer") + ".warmup_steps");
  map.finish();
  return job;
}

Job job_of_layers(const std::string& table) {
  Job job;
  job.model = table;
  job.loss = Loss::output;
  return job;
}

Job read_job(const std::filesystem::path& path) { return parse_job(read_yaml(path, "job"), path); }

nlohmann::ordered_json job_keys(const Job& job, const std::filesystem::path& file) {
  nlohmann::ordered_json keys;
  keys["model"] = relative_path(file, job.model);
  keys["loss"] = loss_keys(job.loss);
  keys["optimizer"] = optimizer_keys(job.optimizer);
  if (job.precision == Precision::bf16) keys["precision"] = "bf16";
  add_data_keys(keys, job, file);
  if (job.validation) keys["validation"] = validation_keys(*job.validation, file);
  keys["global_batch"] = job.global_batch;
  keys["steps"] = job.steps;
  keys["seed"] = job.seed;
  return keys;
}

std::string to_yaml(const Job& job, const std::filesystem::path& file) {
  return "penstock: job\n" + yaml_text(job_keys(job, file));
}

}  // namespace penstock
