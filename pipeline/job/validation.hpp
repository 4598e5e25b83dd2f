// The samples that a model is evaluated on while it is trained.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace penstock {

class YamlMap;
struct Job;

struct Validation {
  std::vector<std::string> data;  // files, of the same kind as the job's data
  int64_t every = 0;              // steps; 0: after the last step of a run alone
  bool operator==(const Validation&) const = default;
};

/// `{data: FILE, every: 100}`. `job` has its data already. Throws InputError.
Validation parse_validation(YamlMap map, const std::filesystem::path& file, const Job& job);
/// The same keys; paths as seen from the folder of `file`.
nlohmann::ordered_json validation_keys(const Validation& validation,
                                       const std::filesystem::path& file);
/// The job with its validation set, which it has, in place of its data; its samples in order.
Job validation_job(Job job);

}  // namespace penstock
