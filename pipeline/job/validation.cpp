#include "pipeline/job/validation.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/paths.hpp"
#include "base/yaml.hpp"
#include "pipeline/job/data_keys.hpp"

namespace penstock {

Validation parse_validation(YamlMap map, const std::filesystem::path& file, const Job& job) {
  Validation validation;
  const std::string place = map.place("data");
  if (job.data.empty()) {
    throw InputError(place, "the job has no `data` of its own", "Add `data`, which it trains on.");
  }
  for (const std::string& path : map.texts("data")) {
    validation.data.push_back(absolute_path(file, path));
    if (kind_of_data(path) == kind_of_data(job.data.front())) continue;
    throw InputError(
        place, fmt::format("`{}` is of another kind than `{}`", path, job.data.front()),
        "Validate on the kind of files that the job trains on: .safetensors, .bin or texts.");
  }
  if (validation.data.empty()) {
    throw InputError(place, "the list is empty", "Name a file, or remove `validation`.");
  }
  validation.every = map.integer("every", 1, INT64_MAX, 0);
  map.finish();
  return validation;
}

nlohmann::ordered_json validation_keys(const Validation& validation,
                                       const std::filesystem::path& file) {
  nlohmann::ordered_json keys;
  std::vector<std::string> data;
  for (const std::string& path : validation.data) data.push_back(relative_path(file, path));
  if (data.size() == 1) {
    keys["data"] = data.front();
  } else {
    keys["data"] = data;
  }
  if (validation.every > 0) keys["every"] = validation.every;
  return keys;
}

Job validation_job(Job job) {
  job.data = job.validation.value().data;
  job.validation.reset();
  job.shuffle = false;
  job.last_batch = LastBatch::wrap;
  return job;
}

}  // namespace penstock
