// Measured costs of a job on one device and over one link, and the JSON file that holds them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "graph/sharding/pins.hpp"
#include "pipeline/job/job.hpp"

namespace penstock {

/// Version of the file's form; read_profile refuses others.
inline constexpr int64_t profile_version = 2;

/// The kind of device of a table of layers (pipeline/layers/layer_model.hpp).
inline constexpr const char* layers_device = "layers";

/// Repeated measurements of one action, in seconds.
struct Measured {
  double mean_s = 0, median_s = 0;  // of the device
  double spread_s = 0;              // interquartile range
  int repetitions = 0;
  double host_s = 0;  // mean of a host that issues it ahead of its device, such as a GPU
  bool operator==(const Measured&) const = default;
};

/// The four actions of a stage: B does both I and W at once.
struct ActionTimes {
  Measured forward, backward, backward_input, backward_weight;
  bool operator==(const ActionTimes&) const = default;
};

/// Seconds of each of them.
struct ActionSeconds {
  double forward = 0, backward = 0, backward_input = 0, backward_weight = 0;
  bool operator==(const ActionSeconds&) const = default;
};

/// The change of the bytes held, from where some work starts to its end, and the largest meanwhile.
struct MemoryChange {
  int64_t net = 0, peak = 0;  // peak is at least 0 and net

  /// This work, and then the other.
  MemoryChange then(const MemoryChange& next) const {
    return {net + next.net, std::max(peak, net + next.peak)};
  }
  bool operator==(const MemoryChange&) const = default;
};

/// Memory of one operator or unit for one microbatch, in bytes, measured where the whole model is
/// one stage: a value is held from the operator that makes it to the last that reads it, or to the
/// backward of the first that keeps it; its gradient from the backward of its last reader to that
/// of its producer. What the whole model is given (inputs, targets) counts nowhere.
struct HeldBytes {
  int64_t output = 0;  // of the values that it produces; of a unit: that later ones use
  MemoryChange forward, backward, backward_input, backward_weight;
  bool operator==(const HeldBytes&) const = default;
};

/// The memory of the values that an operator reads and makes, which are numbered here: first those
/// that it reads (Operator::reads()), then its outputs.
struct ValueMemory {
  std::vector<int> keeps;  // its backward needs them
  std::vector<std::pair<int, int>>
      shares;                // the first, an output, lies in the memory of the second
  std::vector<int> strided;  // outputs that are not contiguous: what is sent of them is a copy
  bool operator==(const ValueMemory&) const = default;
};

/// A way to hold less of a layer (pipeline/layers/layer_table.hpp): its backward computes again
/// what is not kept. Of one microbatch.
struct RecomputeChoice {
  std::string name;
  double time_s = 0;          // that the backward takes longer
  int64_t freed_bytes = 0;    // between F and B
  int64_t working_bytes = 0;  // that the backward takes meanwhile, beside what it makes
  bool operator==(const RecomputeChoice&) const = default;
};

/// One operator of the graph, in its order. Times are scaled so that a unit's operators add up to
/// it.
struct OperatorCost {
  std::string name, target, module;
  double flops = 0;
  int64_t bytes = 0;
  ActionTimes times;
  HeldBytes held;
  ValueMemory values;
  std::vector<RecomputeChoice> recompute = {};  // of a layer, beside keeping everything
  bool operator==(const OperatorCost&) const = default;
};

/// Jitter of a unit's actions: repetitions over their mean, without what slows all of a round
/// (variation.hpp). Values that are equally likely, ascending; empty: measured too seldom.
struct ActionJitter {
  std::vector<double> forward, backward, backward_input, backward_weight;
  bool any() const { return !forward.empty(); }
  bool operator==(const ActionJitter&) const = default;
};

/// A run of operators measured as a whole, in training order: the truth.
struct UnitCost {
  std::string label;
  int begin = 0, end = 0;  // operators [begin, end)
  ActionTimes times;
  HeldBytes held;
  ActionJitter jitter = {};
  bool operator==(const UnitCost&) const = default;
};

/// Seconds of a device, and of the host that issues its work (0 where the device is the host).
struct WorkSeconds {
  double device_s = 0, host_s = 0;

  WorkSeconds operator+(const WorkSeconds& other) const {
    return {device_s + other.device_s, host_s + other.host_s};
  }
  /// The longer of both, since a host runs ahead of its device.
  double longer_s() const { return std::max(device_s, host_s); }
};

/// The bytes of operators one after the other: their F in that order, their backwards in reverse.
struct HeldSums {
  MemoryChange forward, backward, backward_input, backward_weight;
  void add(const HeldBytes& later);
};

/// All of the model at one microbatch size, in the state of a step: memory warm, gradients added to
/// stored ones. The loss's backward and what it keeps are part of the operator that makes the
/// model's first output, its forward is not.
struct MicrobatchCosts {
  int64_t microbatch = 1;
  std::vector<OperatorCost> operators;
  std::vector<UnitCost> units;
  Measured loss_forward;               // in training, where the model's first output is made
  double first_microbatch_excess = 0;  // share by which microbatch 0 of a step takes longer
  double load_batch_s = 0;             // reading one microbatch's inputs and targets
  /// By rank: each round of repetitions over their mean (variation.hpp); the ranks measured them
  /// at the same time. Empty: too few.
  std::vector<std::vector<double>> rounds = {};
  /// Seconds of messages between the parts of a tensor group in the times of each operator, and in
  /// those of the loss; none in a file (simulator/costs/group_profile.hpp).
  std::vector<ActionSeconds> sent = {};
  double loss_sent_s = 0;

  bool knows_noise() const { return !rounds.empty(); }
  /// Not of a table of layers that gives backwards as a whole.
  bool knows_split_backward() const;
  /// The sum over all units, and the loss's forward where that is asked for.
  WorkSeconds whole(Measured ActionTimes::*action) const;
  /// F and B.
  WorkSeconds pass() const;
  bool operator==(const MicrobatchCosts&) const = default;
};

/// The costs of a tensor group's ranks: of the graph that each of them runs (graph/sharding/), by
/// itself, so that what goes between them takes no time. All of these sizes have the one graph.
struct GroupCosts {
  int parts = 2;                              // ranks of a group
  sharding::Pins sharding;                    // how they hold tensors, the rest completed
  std::vector<MicrobatchCosts> microbatches;  // ascending by size
  bool operator==(const GroupCosts&) const = default;
};

/// A link between two ranks, by the executor's own channel, or the sum over both of as many bytes
/// on each: latency_s + bytes / bandwidth.
struct LinkCost {
  /// `gloo`, `gloo-busy`, `gloo-sum`, `nccl`, `nccl-sum`; `local`, `local-sum`: between ranks of
  /// one machine, by the receiver
  std::string kind;
  double latency_s = 0, bandwidth = 0;                    // bytes per second
  double sender_s_per_byte = 0, receiver_s_per_byte = 0;  // compute that a transfer costs its ranks
  double residual = 0;                                    // relative, of the fit
  int64_t lane_bytes = 0;  // that each end of a lane takes of its GPU's memory, for NCCL itself
  std::vector<std::pair<int64_t, double>> samples;  // (bytes, seconds)
  bool operator==(const LinkCost&) const = default;
};

/// The whole model as one stage, its loss included, recorded once and replayed as CUDA graphs.
struct ReplayCosts {
  int64_t microbatch = 1;
  ActionTimes times;
  bool operator==(const ReplayCosts&) const = default;
};

struct DeviceInfo {
  std::string kind = "cpu", name;
  int64_t memory_bytes = 0;
  int threads = 1;  // of each rank
  int cores = 0;    // of its machine, which all ranks there share; 0: not known, or it has a GPU
  std::map<std::string, std::string> details;  // clocks, driver, library versions
  bool operator==(const DeviceInfo&) const = default;
};

/// One GEMM and one copy of fixed size, timed before, between and after the measurements.
struct Probe {
  double gemm_s = 0, copy_s = 0;
  double spread = 0;  // relative, over the repetitions
  bool operator==(const Probe&) const = default;
};

struct Profile {
  std::string path;
  Job job;
  std::string model_sha256;
  DeviceInfo device;
  std::vector<MicrobatchCosts> microbatches;  // ascending by size
  std::vector<GroupCosts> groups;             // of tensor groups, those of fewer parts first
  std::vector<ReplayCosts> replays;           // at sizes that are launch-bound without; ascending
  double accumulate_s_per_byte = 0;   // adding a gradient to a stored one, per parameter byte
  double optimizer_s_per_byte = 0;    // per parameter byte
  double optimizer_s_per_tensor = 0;  // and per parameter, however small
  double zero_s_per_byte = 0;         // clearing gradients, per parameter byte
  double action_overhead_s = 0;       // executor's own time per action
  double action_host_s = 0;           // and that of a host that runs ahead of its device
  int64_t base_memory_bytes = 0;      // of a worker before it loads a stage; not counted in peaks
  std::vector<LinkCost> links;
  Probe probe;

  /// The costs at that size, or null.
  const MicrobatchCosts* at(int64_t microbatch) const;
  bool operator==(const Profile&) const = default;
};

/// Made from a table of layers, not measured here.
inline bool of_layers(const Profile& profile) { return profile.device.kind == layers_device; }

/// Throws InputError naming the file and the member that is missing or wrong.
Profile read_profile(const std::filesystem::path& path);
/// Its job alone, in less time.
Job read_profile_job(const std::filesystem::path& path);
std::string to_json(const Profile& profile, const std::filesystem::path& file);

}  // namespace penstock
