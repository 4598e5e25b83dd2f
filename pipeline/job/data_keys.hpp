// The keys of a job that say what its data is, and in which order it is taken.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "pipeline/job/job.hpp"

namespace penstock {

/// `.safetensors`, whose tensors hold samples; `.bin` (tokens) and `text` (bytes), which are cut
/// into windows.
std::string kind_of_data(const std::string& path);
/// Reads `data`, `sequence`, `token_bytes`, `shuffle` and `last_batch` into the job, whose loss is
/// known. Throws InputError, also for keys that do not go together.
void parse_data(YamlMap& map, const std::filesystem::path& file, Job& job);
/// Adds the same keys, without those that were not given.
void add_data_keys(nlohmann::ordered_json& keys, const Job& job, const std::filesystem::path& file);

}  // namespace penstock
