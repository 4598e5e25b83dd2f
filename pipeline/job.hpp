// A training job: model, loss, optimizer, data, batch, steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/yaml.hpp"

namespace penstock {

struct OptimizerSpec {
  enum class Kind { sgd, adamw };
  Kind kind = Kind::sgd;
  double learning_rate = 1e-3;
  double momentum = 0;                                // sgd
  double weight_decay = 0;                            // adamw: 0.01 unless given, as in PyTorch
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // adamw
  /// Elements of state per parameter element: 0, 1 (momentum) or 2 (adamw).
  int state_per_parameter() const;
  bool operator==(const OptimizerSpec&) const = default;
};

enum class Loss { cross_entropy, mse, output };
/// `cross_entropy`, as in a job file.
std::string_view name(Loss loss);

/// In a global batch, a microbatch, or a window of text.
inline constexpr int64_t most_samples = 1'000'000'000;

struct Job {
  std::string model;  // paths are absolute after reading
  Loss loss = Loss::cross_entropy;
  OptimizerSpec optimizer;
  std::vector<std::string> data;  // empty: only profiling is possible, on made-up data
  int64_t sequence = 0;           // window of text data; 0 for .safetensors
  int64_t global_batch = 1;
  int64_t steps = 1;
  uint64_t seed = 0;
  bool operator==(const Job&) const = default;
};

/// A job file begins with `penstock: job`. Whether model and data exist is found by who opens them.
/// Throws InputError.
Job read_job(const std::filesystem::path& path);
/// The same keys inside a plan; paths relative to `file`.
Job parse_job(YamlMap map, const std::filesystem::path& file);
/// Paths as seen from the folder of `file`.
std::string to_yaml(const Job& job, const std::filesystem::path& file);
/// The same keys without `penstock: job`, as a plan or a profile holds them.
nlohmann::ordered_json job_keys(const Job& job, const std::filesystem::path& file);

}  // namespace penstock
