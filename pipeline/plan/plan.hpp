// The plan file, the contract between planner, simulator and executor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/cuts/cuts.hpp"
#include "graph/cuts/slice.hpp"
#include "graph/sharding/pins.hpp"
#include "pipeline/job/job.hpp"
#include "pipeline/program/lowering.hpp"
#include "pipeline/program/program.hpp"
#include "pipeline/program/schedule.hpp"

namespace penstock {

class YamlMap;

/// Version of the file's form; read_plan refuses others.
inline constexpr int64_t plan_version = 1;
inline constexpr int64_t max_microbatches = 1'000'000;

/// Recomputation in a stage: nothing, all of it at once, or some of its units, each by itself
/// (graph/cuts/segments.hpp): the first so many, or those that are named. In the file it is false,
/// true, a number or a list. Of a table of layers: which layers make which of their choices, in the
/// file `{full: [block.0, block.1]}`.
struct Recompute {
  bool whole = false;
  int first_units = 0;
  std::vector<std::string> units = {};                          // each by its begin
  std::map<std::string, std::vector<std::string>> layers = {};  // by choice, in their order
  bool of_units() const { return first_units > 0 || !units.empty(); }
  bool any() const { return whole || of_units() || !layers.empty(); }
  bool operator==(const Recompute&) const = default;
};

struct StagePlan {
  int rank = 0;
  std::string begin;                 // graph/cuts/cuts.hpp: begin_position
  std::vector<std::string> modules;  // instead of begin, for a stage that is not an interval
  Recompute recompute;
};

/// A file that the plan was made from; relative to the plan's folder when written.
struct FileRef {
  std::string path;
  std::string sha256;
};

/// How ranks sum the gradients that several of them hold: in buckets of about so many bytes
/// (gradient_buckets.hpp), beside the backwards that are left or after all of them.
struct GradientSums {
  int64_t bucket_bytes = 25'000'000;
  bool overlap = true;
  bool operator==(const GradientSums&) const = default;
};

/// Does each replica have the optimizer's state of all parameters, or one of equal parts of it
/// (tensor_parts.hpp)?
enum class OptimizerState { replicated, sharded };

/// The planner's prediction; never an input.
struct Prediction {
  double step_s = 0;      // on mean times: what `simulate` gives
  double expected_s = 0;  // the mean of steps with drawn times; 0: nothing is known of these
  double lower_bound_s = 0, bubble = 0;
  std::vector<int64_t> peak_memory_bytes;  // per rank
};

/// A rank of the run: its replica, its rank of that one's pipeline, its part of the tensor group.
struct RankPlace {
  int replica = 0, rank = 0, part = 0;
};

struct Plan {
  std::string path;  // the file it was read from, "" otherwise
  /// Made from a table of layers, which is the profile: the job has its global batch, and for a
  /// model its path.
  bool layers = false;
  Job job;
  std::string model_sha256;
  std::optional<FileRef> profile, cluster;
  /// Devices of the cluster, numbered as listed, by rank of the run. Empty: as listed.
  std::vector<int> devices;
  std::string schedule{one_f_one_b.name};  // or "" where program is given
  std::string program;                     // a CSV file, absolute after reading
  std::optional<Program>
      generated;  // of schedule `adaptive`: its compute actions; never in the file
  int64_t microbatches = 1, microbatch = 1, data_parallel = 1;
  int64_t tensor_parallel = 1;  // ranks of a tensor group, which run operators on their parts
  sharding::Pins sharding;      // how they hold tensors; the rest is completed
  std::vector<StagePlan> stages;
  GradientSums all_reduce;
  OptimizerState optimizer_state = OptimizerState::replicated;
  std::map<std::string, std::string> shared_parameters;  // name -> sharing.hpp: shared_ways
  int64_t memory_bytes = 0;  // limit per rank that was asked for; 0: what the device has
  std::optional<Prediction> prediction;

  int ranks() const;      // of one pipeline
  int all_ranks() const;  // of the run
  /// Ranks of the run are numbered replica by replica, in each along the pipeline, part by part.
  RankPlace place_of(int rank) const;
  int rank_at(const RankPlace& place) const;
};

/// `replicated` or `sharded`. Throws InputError at `place`: neither, or sharded in a plan of one
/// replica or of a table of layers.
OptimizerState optimizer_state(const std::string& text, const std::string& place, const Plan& plan);
std::string_view name(OptimizerState state);

/// Do ranks that hold a tensor have parts of it, or of its state?
inline bool has_parts(const Plan& plan) {
  return plan.tensor_parallel > 1 || plan.optimizer_state == OptimizerState::sharded;
}

/// `bucket` and `overlap` of a file's `all_reduce`. Throws InputError.
GradientSums parse_gradient_sums(YamlMap& map);

/// Throws InputError: unknown keys, numbers out of range, a batch that the microbatches do not
/// divide (naming the nearest that do), ranks that are not 0..P-1.
Plan read_plan(const std::filesystem::path& path);
/// The same from the file's text.
Plan parse_plan(const std::string& text, const std::filesystem::path& path);
std::string to_yaml(const Plan& plan, const std::filesystem::path& file);

/// Which rank each process is, all replicas counted. Processes are numbered along the devices as
/// the cluster lists them, which is how launchers go from node to node, and leave out those that
/// the plan does not use.
std::vector<int> rank_of_process(const Plan& plan);

/// Throws InputError if the model is not the one that the plan was made for.
void check_fingerprint(const Plan& plan, const Graph& model);

/// The stages that a plan describes. Throws InputError for a cut that does not exist (suggesting
/// the nearest name), a stage without operators, an order that is not acyclic, a stage that is to
/// recompute units that it does not have, a shared parameter that is none (sharing.hpp).
Slicing slice(const Plan& plan, const Graph& model, const Analysis& analysis);
/// Notes what the plan's stages recompute; part of `slice`. `units`: of the model.
void note_recompute(const Plan& plan, const Graph& model, const std::vector<Unit>& units,
                    Slicing& slicing);

/// Flows between stages, for lowering.
std::vector<Flow> flows(const Slicing& slicing);

/// The compute actions of the plan's schedule, generated or read, as they are trained. Throws
/// InputError if they do not fit the plan, or could not run along `flows`.
Program compute_program(const Plan& plan, const std::vector<Flow>& flows);

/// The plan's schedule, generated or read, lowered along `slicing` and checked; with REDUCE_GRAD
/// for stages that share parameters or have replicas, and OPT. Of a plan that is forward_only its
/// forwards alone.
Program lowered_program(const Plan& plan, const Slicing& slicing);
/// The same plan for inference: forward_only, and nothing is recomputed.
Plan for_inference(Plan plan);

}  // namespace penstock
