// Writes plans, in the order in which people read them.
#include <nlohmann/json.hpp>

#include "base/paths.hpp"
#include "base/yaml.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/sharding/sharding_keys.hpp"

namespace penstock {

namespace {

nlohmann::ordered_json file_keys(const FileRef& ref, const std::filesystem::path& file) {
  nlohmann::ordered_json keys = {{"path", relative_path(file, ref.path)}};
  if (!ref.sha256.empty()) keys["sha256"] = ref.sha256;
  return keys;
}

nlohmann::ordered_json stage_keys(const StagePlan& stage, bool layers) {
  nlohmann::ordered_json keys = {{"rank", stage.rank}};
  if (stage.modules.empty()) {
    keys["begin"] = stage.begin;
  } else {
    keys["modules"] = stage.modules;
  }
  if (layers) {
    if (stage.recompute.any()) keys["recompute"] = stage.recompute.layers;
  } else if (stage.recompute.first_units > 0) {
    keys["recompute"] = stage.recompute.first_units;
  } else if (!stage.recompute.units.empty()) {
    keys["recompute"] = stage.recompute.units;
  } else {
    keys["recompute"] = stage.recompute.whole;
  }
  return keys;
}

nlohmann::ordered_json prediction_keys(const Prediction& prediction) {
  nlohmann::ordered_json keys{{"step_s", prediction.step_s}};
  if (prediction.expected_s > 0) keys["expected_s"] = prediction.expected_s;
  keys["lower_bound_s"] = prediction.lower_bound_s;
  keys["bubble"] = prediction.bubble;
  keys["peak_memory_bytes"] = prediction.peak_memory_bytes;
  return keys;
}

}  // namespace

std::string to_yaml(const Plan& plan, const std::filesystem::path& file) {
  nlohmann::ordered_json keys;
  keys["penstock"] = "plan";
  keys["version"] = plan_version;
  if (plan.layers) {
    keys["layers"] = file_keys(*plan.profile, file);
  } else {
    keys["job"] = job_keys(plan.job, file);
    if (!plan.model_sha256.empty()) keys["model_sha256"] = plan.model_sha256;
    if (plan.profile) keys["profile"] = file_keys(*plan.profile, file);
  }
  if (plan.job.forward_only) keys["forward_only"] = true;
  if (plan.cluster) keys["cluster"] = file_keys(*plan.cluster, file);
  if (!plan.devices.empty()) keys["devices"] = plan.devices;
  if (plan.program.empty()) {
    keys["schedule"] = plan.schedule;
  } else {
    keys["program"] = relative_path(file, plan.program);
  }
  keys["microbatches"] = plan.microbatches;
  keys["microbatch"] = plan.microbatch;
  keys["data_parallel"] = plan.data_parallel;
  if (plan.tensor_parallel > 1) keys["tensor_parallel"] = plan.tensor_parallel;
  if (nlohmann::ordered_json pins = sharding_keys(plan.sharding); !pins.empty())
    keys["sharding"] = std::move(pins);
  for (const StagePlan& stage : plan.stages)
    keys["stages"].push_back(stage_keys(stage, plan.layers));
  if (plan.data_parallel > 1 || plan.all_reduce != GradientSums{}) {
    keys["all_reduce"] = {{"bucket", plan.all_reduce.bucket_bytes},
                          {"overlap", plan.all_reduce.overlap}};
  }
  if (plan.optimizer_state == OptimizerState::sharded)
    keys["optimizer_state"] = std::string(name(plan.optimizer_state));
  if (!plan.shared_parameters.empty()) keys["shared_parameters"] = plan.shared_parameters;
  if (plan.memory_bytes > 0) keys["memory_bytes"] = plan.memory_bytes;
  if (plan.prediction) keys["prediction"] = prediction_keys(*plan.prediction);
  return yaml_text(keys);
}

}  // namespace penstock
