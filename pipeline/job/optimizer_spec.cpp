#include "pipeline/job/optimizer_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/error.hpp"
#include "base/yaml.hpp"

namespace penstock {

namespace {

constexpr double max_rate = 1e3, max_norm = 1e9;
constexpr int64_t max_warmup = 1'000'000'000'000;
constexpr double adamw_weight_decay = 0.01;
constexpr std::array decay_names{"constant", "linear", "cosine"};
constexpr const char* norms_and_biases = "norms_and_biases";

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

void parse_kind(YamlMap& map, OptimizerSpec& spec) {
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
}

void parse_schedule(YamlMap& map, OptimizerSpec& spec) {
  spec.warmup_steps = map.integer("warmup_steps", 0, max_warmup, 0);
  const std::string text = map.text("decay", decay_names[0]);
  const auto found = std::ranges::find(decay_names, text);
  if (found == decay_names.end()) {
    throw InputError(map.place("decay"), fmt::format("there is no decay `{}`", text),
                     "Write constant, linear or cosine.");
  }
  spec.decay = static_cast<OptimizerSpec::Decay>(found - decay_names.begin());
  if (!map.has("final_learning_rate")) return;
  if (spec.decay == OptimizerSpec::Decay::constant) {
    throw InputError(map.place("final_learning_rate"), "the learning rate does not decay",
                     "Add `decay: cosine` or `decay: linear`, or remove the key.");
  }
  spec.final_learning_rate = map.number("final_learning_rate", 0, spec.learning_rate);
}

void parse_clipping(YamlMap& map, OptimizerSpec& spec) {
  if (!map.has("clip_norm")) return;
  spec.clip_norm = map.number("clip_norm", 0, max_norm);
  if (spec.clip_norm == 0) {
    throw InputError(map.place("clip_norm"), "0 would make every gradient 0",
                     "Write a positive norm, as in `clip_norm: 1`, or remove the key.");
  }
}

void parse_no_decay(YamlMap& map, OptimizerSpec& spec) {
  if (!map.has("no_decay")) return;
  const std::string text = map.text("no_decay");
  if (text != norms_and_biases) {
    throw InputError(map.place("no_decay"), fmt::format("there is no `{}`", text),
                     "Write norms_and_biases, or list parameters under `groups`: "
                     "`{parameters: [\"*.bias\"], weight_decay: 0}`.");
  }
  spec.no_decay_of_norms_biases = true;
}

ParameterGroup parse_group(YamlMap map) {
  ParameterGroup group;
  group.parameters = map.texts("parameters");
  if (map.has("learning_rate")) group.learning_rate = map.number("learning_rate", 0, max_rate);
  if (map.has("weight_decay")) group.weight_decay = map.number("weight_decay", 0, max_rate);
  map.finish();
  const bool given = group.learning_rate || group.weight_decay;
  if (given && !group.parameters.empty()) return group;
  throw InputError(map.place("parameters"),
                   given ? "names no parameters" : "the group has no settings of its own",
                   "Write `{parameters: [PATTERN], learning_rate: …, weight_decay: …}`.");
}

double decayed(OptimizerSpec::Decay decay, double progress) {
  switch (decay) {
    case OptimizerSpec::Decay::constant: break;
    case OptimizerSpec::Decay::linear: return 1 - progress;
    case OptimizerSpec::Decay::cosine: return 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
  return 1;
}

}  // namespace

int OptimizerSpec::state_per_parameter() const {
  if (kind == Kind::adamw) return 2;
  return momentum > 0 ? 1 : 0;
}

double learning_rate_factor(const OptimizerSpec& spec, int64_t step, int64_t steps) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  if (step < spec.warmup_steps) return real(step) / real(spec.warmup_steps);
  if (spec.decay == OptimizerSpec::Decay::constant || spec.learning_rate == 0) return 1;
  const int64_t decaying = std::max<int64_t>(1, steps - spec.warmup_steps);
  const int64_t done = std::min(step - spec.warmup_steps, decaying);
  const double last = spec.final_learning_rate / spec.learning_rate;
  return decayed(spec.decay, real(done) / real(decaying)) * (1 - last) + last;
}

OptimizerSpec parse_optimizer(YamlMap map) {
  OptimizerSpec spec;
  parse_kind(map, spec);
  const bool sgd = spec.kind == OptimizerSpec::Kind::sgd;
  spec.learning_rate = map.number("learning_rate", 0, max_rate);
  spec.weight_decay = map.number("weight_decay", 0, max_rate, sgd ? 0 : adamw_weight_decay);
  if (sgd) spec.momentum = map.number("momentum", 0, 1, 0);
  if (!sgd) {
    parse_betas(map, spec);
    spec.epsilon = map.number("epsilon", 0, 1, spec.epsilon);
  }
  parse_schedule(map, spec);
  parse_clipping(map, spec);
  parse_no_decay(map, spec);
  if (map.has("groups"))
    for (const YamlMap& group : map.maps("groups")) spec.groups.push_back(parse_group(group));
  if (map.has("frozen")) spec.frozen = map.texts("frozen");
  map.finish();
  return spec;
}

nlohmann::ordered_json optimizer_keys(const OptimizerSpec& spec) {
  const bool sgd = spec.kind == OptimizerSpec::Kind::sgd;
  nlohmann::ordered_json keys;
  keys["kind"] = sgd ? "sgd" : "adamw";
  keys["learning_rate"] = spec.learning_rate;
  if (sgd) keys["momentum"] = spec.momentum;
  keys["weight_decay"] = spec.weight_decay;
  if (!sgd) {
    keys["betas"] = {spec.beta1, spec.beta2};
    keys["epsilon"] = spec.epsilon;
  }
  if (spec.warmup_steps > 0) keys["warmup_steps"] = spec.warmup_steps;
  if (spec.decay != OptimizerSpec::Decay::constant) {
    keys["decay"] = decay_names[static_cast<size_t>(spec.decay)];
    keys["final_learning_rate"] = spec.final_learning_rate;
  }
  if (spec.clip_norm > 0) keys["clip_norm"] = spec.clip_norm;
  if (spec.no_decay_of_norms_biases) keys["no_decay"] = norms_and_biases;
  for (const ParameterGroup& group : spec.groups) {
    nlohmann::ordered_json own{{"parameters", group.parameters}};
    if (group.learning_rate) own["learning_rate"] = *group.learning_rate;
    if (group.weight_decay) own["weight_decay"] = *group.weight_decay;
    keys["groups"].push_back(own);
  }
  if (!spec.frozen.empty()) keys["frozen"] = spec.frozen;
  return keys;
}

}  // namespace penstock
