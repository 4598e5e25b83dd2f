// The arguments of a worker's task whose command is `execute`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "launch/shared_batch.hpp"
#include "pipeline/plan/cuda_graphs.hpp"

namespace penstock {

struct ExecuteTask {
  std::string plan;         // path; every worker reads it
  std::string plan_sha256;  // of the plan that was checked before the workers were started
  std::string program;      // of schedule `adaptive`: its compute actions as CSV
  int64_t first_step = 0;   // not 0 where a checkpoint is resumed
  int64_t steps = 1;        // to run, from there; with `batch` as many as a script asks for
  bool forward_only = false;
  CudaGraphs cuda_graphs = CudaGraphs::automatic;
  bool metrics = false;   // tell each step's bubble and memory of all ranks
  bool timeline = false;  // tell the timeline of the median step
  std::string output;     // of forwards only: .safetensors, "" for none
  std::string dump_gradients;
  std::string save;        // folder for checkpoints, "" for none
  int64_t save_every = 0;  // after each step that it divides; 0: at the end only
  int64_t keep = 3;        // so many of the latest checkpoints
  std::string resume;      // the checkpoint to start from, "" for none
  std::string weights;     // a state dictionary to start from, "" for none
  SharedBatch batch;       // that a script feeds, in place of the job's data
  int results = -1;        // memory for what it asks rank 0 for, or -1
};

nlohmann::json to_json(const ExecuteTask& task);
/// Throws nlohmann::json::exception.
ExecuteTask parse_execute_task(const nlohmann::json& json);

/// The first steps are slower: a measured step is the median of those after them.
inline constexpr int64_t kWarmUpSteps = 3;

}  // namespace penstock
