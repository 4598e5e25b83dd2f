// The report at the end of `penstock execute`.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/predict/prediction.hpp"

namespace penstock::cli {

/// Whether a rank on a GPU replayed its steps as CUDA graphs, and what its warm-up measured: a
/// step's compute with and without them, 0 where it did not come to that.
struct GraphsUsed {
  bool on = false;
  std::string why_not;
  double without_s = 0, with_s = 0;
};

/// An evaluation on the validation set.
struct Validated {
  int64_t step = 0;  // after how many steps of the job
  double loss = 0;   // may be no finite number
};

/// A run as rank 0 reported it.
struct ExecuteResult {
  std::vector<double> losses;                          // empty for forwards only
  std::vector<std::vector<double>> microbatch_losses;  // of each step; not a number: no target
  std::vector<double> gradient_norms;                  // where the job clips
  std::vector<Validated> validations;                  // where the job has a validation set
  std::vector<double> step_s;
  std::vector<int64_t> peak_memory_bytes;    // per rank
  std::vector<int64_t> peak_reserved_bytes;  // per rank, on GPUs: of their allocators
  std::vector<GraphsUsed> cuda_graphs;       // per rank, on GPUs
  std::vector<double> compute_s;             // per rank: F, B, I and W of the median step

  /// Median and interquartile range of the steps after the warm-up.
  double measured_step_s() const;
  double spread_s() const;
};

/// Throws nlohmann::json::exception.
GraphsUsed parse_graphs_used(const nlohmann::json& json);

/// A run and what was predicted of it, where anything was; `why_not_predicted` otherwise says why.
struct ExecuteReport {
  int64_t samples = 0;  // of a step of inference; 0 of training
  ExecuteResult result;
  std::optional<Predicted> predicted;
  std::optional<StepAtPace> at_pace;
  std::string why_not_predicted;
};

nlohmann::json report_json(const ExecuteReport& report);
/// Predicted beside measured, in lines of at most `columns` (0: any number); ends with a newline.
std::string report_text(const ExecuteReport& report, int columns);

}  // namespace penstock::cli
