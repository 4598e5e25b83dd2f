// The objective of DAPPLE's planner (S. Fan et al., "DAPPLE: a pipelined data parallel approach for
// training large models", 2021, section 4; constants and the terms that the paper leaves open as in
// its published code), and its optimum.
//
// A cluster has machines of some devices. Layers stand in one order. A plan has r replicas of a
// pipeline, of which each takes batch / r samples in M microbatches of the profiled size; stage i,
// an interval of layers, runs on d_i devices, counted over all replicas. For the whole batch:
//
//     B = the longest of: compute of stage i / d_i; transfer of f x the activations of cut i
//     L = (M - 1)/M B  +  compute of all / (r M)  +  sum over cuts of transfer(activations / (r M))
//         +  the longest all-reduce, stage i's less i B/M, which its devices are done earlier
//     speedup = compute of all / L
//
// f is 2 (activations there, gradients back), but 1 for two stages without replicas, which the
// published code plans apart. Transfers to a stage on one machine go at 1 GB/s for the part of the
// senders that is elsewhere, else at 25 GB/s; those to a stage on several machines at 3 GB/s. An
// all-reduce over d devices moves 2 (d - 1)/d x bytes, over several machines at 3 GB/s, on one at
// floor(d/2) x 25 GB/s.
//
// Devices are given to stages in order, in r rounds, each by one of the paper's policies: from
// machines that are free, from machines that are in use, or from all machines in turn.
#pragma once

#include <vector>

#include "bench/planner/importers/layer_graph.hpp"

namespace penstock::bench {

struct DappleSetting {
  std::vector<int> machines;  // devices of each
  int profile_batch = 1;      // samples that the profile was measured with: a microbatch
  int batch = 1;              // samples of a step, over all replicas
  /// As the published code: a stage before the last also reduces the parameters of the layer behind
  /// it. False: of its own layers only.
  bool reduces_next_layer = true;
};

struct DappleStage {
  int begin = 0, end = 0;    // layers, in the order of the model
  std::vector<int> devices;  // on each machine
};

struct DapplePlan {
  int replicas = 1;
  std::vector<DappleStage> stages;
};

/// A layer graph in the order in which it is cut, for the whole batch.
struct DappleModel {
  std::vector<double> compute_s, parameter_bytes;  // before layer i, i <= layers
  std::vector<double> cut_bytes;                   // activations that cross the cut before layer i
  int layers() const { return static_cast<int>(cut_bytes.size()) - 1; }
};

/// All layers of `graph` are placed; see without_ends(). The order is topological_order().
DappleModel dapple_model(const LayerGraph& graph, const DappleSetting& setting);

/// 0 for a plan whose replicas get no whole microbatch.
double dapple_speedup(const DappleModel& model, const DappleSetting& setting,
                      const DapplePlan& plan);

/// The ways to take `need` devices in each of `rounds` rounds from what is `used` on the machines:
/// devices taken of each machine, every way once.
std::vector<std::vector<int>> dapple_placements(const std::vector<int>& machines,
                                                const std::vector<int>& used, int need, int rounds);

struct DappleResult {
  double speedup = 0;
  DapplePlan plan;
  bool exact = true;  // false: the search was given up after `max_steps` and this is its best
};

/// Over all numbers of devices n = 2 .. all for a pipeline (1 if there is one device), with
/// r = floor(all / n) replicas.
DappleResult solve_dapple(const DappleModel& model, const DappleSetting& setting,
                          long max_steps = 20'000'000);

}  // namespace penstock::bench
