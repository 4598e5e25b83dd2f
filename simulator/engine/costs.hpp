// Costs of a program's actions: the simulator's input beside the program.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "pipeline/program/action.hpp"
#include "pipeline/program/lowering.hpp"

namespace penstock {

/// A sum of gradients over ranks beside compute.
struct SumCosts {
  double sum_s = 0;
  double compute_s = 0;  // of the rank, where it computes meanwhile
  /// The rest of the stage's last backward when its gradients are final: of B, and of W.
  double left_of_backward_s = 0, left_of_weight_s = 0;
};

/// Costs of one stage. Times per microbatch, in seconds, and how much longer microbatch 0 takes.
struct StageCosts {
  double forward_s = 0, backward_s = 0, backward_input_s = 0, backward_weight_s = 0;
  double first_forward_s = 0, first_backward_s = 0;  // added to F, and to B or I, of microbatch 0
  // Seconds of its host to issue them, where it runs ahead of a device such as a GPU.
  double forward_host_s = 0, backward_host_s = 0, backward_input_host_s = 0,
         backward_weight_host_s = 0;
  double optimizer_s = 0;      // once per step
  double reduce_s = 0;         // of sums that begin when all backwards of the rank have ended
  std::vector<SumCosts> sums;  // those that begin while the stage's last backward runs, in order
  double publish_s = 0;        // OPT takes so much longer: new values on their way between ranks
  double recompute_s = 0;      // the F again that B and I begin with; part of their times
  int64_t saved_bytes = 0;     // held from the start of F to the end of B or I
  int64_t saved_weight_bytes = 0;  // held from there to the end of W
  // At most beside all that is saved, of what was received or returned for it too: while F runs; B;
  // I; W.
  int64_t transient_forward_bytes = 0, transient_backward_bytes = 0, transient_input_bytes = 0,
          transient_weight_bytes = 0;
  int64_t transient_reduce_bytes = 0;     // while REDUCE_GRAD: another rank's gradient
  int64_t transient_optimizer_bytes = 0;  // while OPT
  int64_t recompute_bytes = 0;  // what that F makes again; part of the transients of B and I
  int64_t fixed_bytes = 0;      // parameters, gradients, optimizer state, buffers, constants
  int64_t snapshot_bytes = 0;   // copies of what training changes, of a run that survives
};

/// Bytes that stage `from` sends to stage `to` per microbatch.
struct FlowBytes {
  int from = 0, to = 0;
  int64_t forward_bytes = 0, backward_bytes = 0;
  int64_t unsaved_bytes = 0;  // of the former: that the sender does not save for its own backward
};

struct Costs {
  std::vector<StageCosts> stages;
  std::vector<FlowBytes> flows;
  /// By rank: the cores that it computes on, those of its replicas too. Ranks that compute on a
  /// core at the same time share it equally, and a rank is as fast as its slowest replica. Empty:
  /// each rank computes by itself.
  std::vector<std::vector<int>> cores;
  /// Seconds of compute actions that do not take what their stage says (measured_compute.hpp).
  std::map<Action, double> measured_s;
  /// Receives posted ahead of each channel, with their memory; messages take none where it is 0.
  int receive_depth = 0;

  /// Compute time of an action, in seconds. Transfers and sums cost nothing here; an OVERLAP_F_B
  /// takes as long as its parts.
  double duration_s(const Action& action) const;
  /// Seconds of the host to issue it.
  double host_s(const Action& action) const;
  /// Bytes that a SEND or RECV moves; 0 for a flow that is not listed.
  int64_t message_bytes(const Action& action) const;
};

/// `count` stages that cost the same, and the same bytes on every flow in both directions.
Costs equal_stages(int count, const StageCosts& each, const std::vector<Flow>& flows,
                   int64_t message_bytes);

}  // namespace penstock
