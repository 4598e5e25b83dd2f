// A training job: model, loss, optimizer, data, batch, steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/job/optimizer_spec.hpp"
#include "pipeline/job/validation.hpp"

namespace penstock {

class YamlMap;

enum class Loss { cross_entropy, mse, bce_with_logits, output };
/// `cross_entropy`, as in a job file.
std::string_view name(Loss loss);

struct LossSpec {
  Loss kind = Loss::cross_entropy;
  double label_smoothing = 0;                                      // of cross_entropy, from 0 to 1
  LossSpec(Loss loss = Loss::cross_entropy, double smoothing = 0)  // NOLINT: mostly a kind alone
      : kind(loss), label_smoothing(smoothing) {}
  bool operator==(const LossSpec&) const = default;
  bool operator==(Loss) const = delete;  // compare `kind`
};

/// `bf16`: a model of bfloat16 computes in it, but float32 are the sums of its gradients, its loss,
/// and what the optimizer steps. Otherwise everything is of the model's own type.
enum class Precision { model, bf16 };

/// What fills up a global batch where fewer samples are left of an epoch.
enum class LastBatch {
  wrap,  // the first samples of the next epoch
  drop,  // nothing: what is left is not used in this epoch
  pad,   // samples that do not count, under Loss::cross_entropy
};

/// In a global batch, a microbatch, or a window of text.
inline constexpr int64_t max_samples = 1'000'000'000;

struct Job {
  std::string model;  // paths are absolute after reading
  LossSpec loss;
  OptimizerSpec optimizer;
  Precision precision = Precision::model;
  std::vector<std::string> data;  // files; without any only profiling is possible, or …
  bool random_data = false;       // … everything, on made-up data
  int64_t sequence = 0;           // window of text data; 0 for .safetensors
  int64_t token_bytes = 0;        // of `.bin` files: 2, 4, or 0 where not given, which means 2
  bool shuffle = false;           // each epoch in an order of its own
  std::optional<LastBatch> last_batch;  // where not given, wrap
  std::optional<Validation> validation;
  int64_t global_batch = 1;
  int64_t steps = 1;
  uint64_t seed = 0;
  /// Inference: forwards alone, in evaluation mode. Of a plan, never in a job file.
  bool forward_only = false;
  /// Copies of its state in memory that each rank counts with (--survive). Never in a file.
  int64_t snapshots = 0;
  bool has_data() const { return random_data || !data.empty(); }
  bool operator==(const Job&) const = default;
};

/// A job file begins with `penstock: job`. Whether model and data exist is found by who opens them.
/// Throws InputError.
Job read_job(const std::filesystem::path& path);
/// The stand-in for the job of a table of layers: its path for the model, a loss that is the last
/// layer's, an optimizer whose state is part of what the layers hold.
Job job_of_layers(const std::string& table);
/// The same keys inside a plan; paths relative to `file`.
Job parse_job(YamlMap map, const std::filesystem::path& file);
/// Paths as seen from the folder of `file`.
std::string to_yaml(const Job& job, const std::filesystem::path& file);
/// The same keys without `penstock: job`, as a plan or a profile holds them.
nlohmann::ordered_json job_keys(const Job& job, const std::filesystem::path& file);

}  // namespace penstock
