// Reads and writes jobs.
#include "pipeline/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "graph/error.hpp"
#include "pipeline/paths.hpp"

namespace penstock {

namespace {

constexpr int64_t most_steps = 1'000'000'000'000;
constexpr double adamw_weight_decay = 0.01;
constexpr std::array loss_names{"cross_entropy", "mse", "output"};

Loss parse_loss(YamlMap& map) {
  const std::string text = map.text("loss");
  const auto found = std::ranges::find(loss_names, text);
  if (found == loss_names.end()) {
    throw InputError(map.place("loss"), fmt::format("there is no loss `{}`", text),
                     "Write cross_entropy, mse, or output (the model's first output is the loss).");
  }
  return static_cast<Loss>(found - loss_names.begin());
}

/// Decay rates of AdamW: below 1, since its bias correction divides by 1 - beta^step.
void parse_betas(YamlMap& map, OptimizerSpec& spec) {
  if (!map.has("betas")) return;
  const std::vector<double> betas = map.numbers("betas", 0, 1);
  if (betas.size() != 2 || betas[0] == 1 || betas[1] == 1) {
    throw InputError(
        map.place("betas"),
        fmt::format("[{}] is not two numbers from 0 to below 1", fmt::join(betas, ", ")),
        "Write `betas: [0.9, 0.999]`.");
  }
  spec.beta1 = betas[0];
  spec.beta2 = betas[1];
}

OptimizerSpec parse_optimizer(YamlMap map) {
  OptimizerSpec spec;
  const std::string kind = map.text("kind");
  if (kind != "sgd" && kind != "adamw") {
    throw InputError(map.place("kind"), fmt::format("there is no optimizer `{}`", kind),
                     "Write sgd or adamw.");
  }
  const bool sgd = kind == "sgd";
  spec.kind = sgd ? OptimizerSpec::Kind::sgd : OptimizerSpec::Kind::adamw;
  for (const char* key : {"momentum", "betas", "epsilon"}) {
    const bool of_sgd = key == std::string_view("momentum");
    if (of_sgd == sgd || !map.has(key)) continue;
    throw InputError(map.place(key), fmt::format("{} has no `{}`", kind, key),
                     fmt::format("Remove it, or write `kind: {}`.", sgd ? "adamw" : "sgd"));
  }
  spec.learning_rate = map.number("learning_rate", 0, 1e3);
  spec.weight_decay = map.number("weight_decay", 0, 1e3, sgd ? 0 : adamw_weight_decay);
  if (sgd) spec.momentum = map.number("momentum", 0, 1, 0);
  if (!sgd) {
    parse_betas(map, spec);
    spec.epsilon = map.number("epsilon", 0, 1, spec.epsilon);
  }
  map.finish();
  return spec;
}

/// Text (bytes) and `.bin` tokens are cut into windows of `sequence`; `.safetensors` holds samples.
void parse_data(YamlMap& map, const std::filesystem::path& file, Job& job) {
  job.sequence = map.integer("sequence", 1, most_samples, 0);
  if (!map.has("data")) return;
  const auto extension = [](const std::string& path) {
    const std::string text = std::filesystem::path(path).extension().string();
    return text == ".safetensors" || text == ".bin" ? text : "text";
  };
  for (const std::string& path : map.texts("data")) job.data.push_back(absolute_path(file, path));
  if (job.data.empty()) {
    throw InputError(map.place("data"), "the list is empty", "Name a file, or remove the key.");
  }
  const std::string kind = extension(job.data.front());
  for (const std::string& path : job.data) {
    if (extension(path) == kind) continue;
    throw InputError(map.place("data"),
                     fmt::format("`{}` and `{}` are of different kinds", job.data.front(), path),
                     "Use one .safetensors file, or only .bin files of tokens, or only texts.");
  }
  const bool samples = kind == ".safetensors";
  if (samples && job.data.size() > 1) {
    throw InputError(map.place("data"), fmt::format("{} .safetensors files", job.data.size()),
                     "Put the samples into one file.");
  }
  if (samples && job.sequence > 0) {
    throw InputError(map.place("sequence"),
                     "samples of a .safetensors file are not cut into windows", "Remove the key.");
  }
  if (!samples && job.sequence == 0) {
    throw InputError(map.place("sequence"), "missing",
                     "Text and tokens are cut into windows: add `sequence: 128`.");
  }
}

}  // namespace

int OptimizerSpec::state_per_parameter() const {
  if (kind == Kind::adamw) return 2;
  return momentum > 0 ? 1 : 0;
}

std::string_view name(Loss loss) { return loss_names[static_cast<size_t>(loss)]; }

Job parse_job(YamlMap map, const std::filesystem::path& file) {
  Job job;
  job.model = absolute_path(file, map.text("model"));
  job.loss = parse_loss(map);
  job.optimizer = parse_optimizer(map.map("optimizer"));
  parse_data(map, file, job);
  job.global_batch = map.integer("global_batch", 1, most_samples);
  job.steps = map.integer("steps", 1, most_steps, 1);
  job.seed = static_cast<uint64_t>(map.integer("seed", 0, INT64_MAX, 0));
  map.finish();
  return job;
}

Job read_job(const std::filesystem::path& path) { return parse_job(read_yaml(path, "job"), path); }

nlohmann::ordered_json job_keys(const Job& job, const std::filesystem::path& file) {
  nlohmann::ordered_json optimizer;
  const OptimizerSpec& spec = job.optimizer;
  const bool sgd = spec.kind == OptimizerSpec::Kind::sgd;
  optimizer["kind"] = sgd ? "sgd" : "adamw";
  optimizer["learning_rate"] = spec.learning_rate;
  if (sgd) optimizer["momentum"] = spec.momentum;
  optimizer["weight_decay"] = spec.weight_decay;
  if (!sgd) {
    optimizer["betas"] = {spec.beta1, spec.beta2};
    optimizer["epsilon"] = spec.epsilon;
  }
  nlohmann::ordered_json keys;
  keys["model"] = relative_path(file, job.model);
  keys["loss"] = name(job.loss);
  keys["optimizer"] = optimizer;
  std::vector<std::string> data;
  for (const std::string& path : job.data) data.push_back(relative_path(file, path));
  if (data.size() == 1) keys["data"] = data.front();
  if (data.size() > 1) keys["data"] = data;
  if (job.sequence > 0) keys["sequence"] = job.sequence;
  keys["global_batch"] = job.global_batch;
  keys["steps"] = job.steps;
  keys["seed"] = job.seed;
  return keys;
}

std::string to_yaml(const Job& job, const std::filesystem::path& file) {
  return "penstock: job\n" + yaml_text(job_keys(job, file));
}

}  // namespace penstock
