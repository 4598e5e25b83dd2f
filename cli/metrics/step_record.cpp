#include "cli/metrics/step_record.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "launch/worker_protocol.hpp"

namespace penstock::cli {

namespace {

std::optional<double> number(const nlohmann::json& event, const char* key) {
  return event.contains(key) ? std::optional(event.at(key).get<double>()) : std::nullopt;
}

/// JSON has null for what is not a number.
std::vector<double> numbers(const nlohmann::json& values) {
  std::vector<double> result;
  for (const auto& value : values) result.push_back(value.is_null() ? NAN : value.get<double>());
  return result;
}

}  // namespace

StepRecord step_record(const nlohmann::json& event, const Plan& plan) {
  const Job& job = plan.job;
  const auto step = event.at("step").get<int64_t>();
  StepRecord record{.step = step_number(step), .loss = number(event, "loss")};
  record.step_s = event.at("step_s").get<double>();
  if (record.loss)
    record.learning_rate =
        job.optimizer.learning_rate * learning_rate_factor(job.optimizer, step, job.steps);
  if (event.contains("microbatch_losses"))
    record.microbatch_losses = numbers(event.at("microbatch_losses"));
  record.gradient_norm = number(event, "gradient_norm");
  record.per_s =
      static_cast<double>(job.global_batch * std::max<int64_t>(1, job.sequence)) / record.step_s;
  if (job.sequence > 0) record.unit = "tokens";
  record.bubble = number(event, "bubble");
  if (event.contains("peak_memory_bytes"))
    event.at("peak_memory_bytes").get_to(record.peak_memory_bytes);
  return record;
}

nlohmann::ordered_json metrics_of(const StepRecord& record) {
  nlohmann::ordered_json line{{"step", record.step}};
  const auto add = [&](const char* key, const std::optional<double>& value) {
    if (value) line[key] = *value;
  };
  add("loss", record.loss);
  add("gradient_norm", record.gradient_norm);
  add("learning_rate", record.learning_rate);
  line["step_s"] = record.step_s;
  line[std::string(record.unit) + "_per_s"] = record.per_s;
  add("bubble", record.bubble);
  line["peak_memory_bytes"] = record.peak_memory_bytes;
  return line;
}

}  // namespace penstock::cli
