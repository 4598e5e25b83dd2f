// The terms of a stage's costs, each computed in one place: plan_costs.hpp adds them up over the
// stages of a plan, and the planner over the units of its model, whose sums bound those of stages.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/engine/costs.hpp"

namespace penstock {

/// Sums over measured operators, one after the other. Times in seconds, of one microbatch.
struct OperatorSums {
  WorkSeconds forward, backward, backward_input, backward_weight;

  void add(const OperatorCost& cost);
  /// The forward of the loss, after the operators.
  void add_loss(const MicrobatchCosts& measured);
};

/// Seconds that a stage takes to read its part of a microbatch from the data: reading is shared out
/// over the inputs of the model and the target, which comes to the stage that makes the loss.
/// `inputs`: how many of the inputs the stage reads.
double load_s(const MicrobatchCosts& measured, const Graph& model, size_t inputs, bool target);

/// Bytes that a tensor takes on a rank as long as the step lasts: with gradient, and with the
/// optimizer's state where the rank steps it.
int64_t fixed_bytes(const Job& job, const StoredTensor& tensor, bool stepped);

/// Bytes of the optimizer's state of a tensor that the largest of so many equal parts has at least.
int64_t state_part_bytes(const Job& job, const StoredTensor& tensor, int64_t parts);

/// Parameters that OPT deals with.
struct Stepped {
  int64_t tensors = 0, bytes = 0;  // that the rank steps
  int64_t held_bytes = 0;          // for another rank, whose gradients are only cleared
};

/// Seconds of OPT: those that it updates what the rank steps, and those that it clears gradients.
double step_s(const Profile& profile, const Stepped& stepped);
double update_s(const Profile& profile, const Stepped& stepped);
double clear_s(const Profile& profile, int64_t parameter_bytes);

/// Seconds by which the backward of microbatch 0 is shorter, which stores the gradients of so many
/// bytes of parameters where the others add theirs.
double accumulate_s(const Profile& profile, int64_t parameter_bytes);

/// Bytes that one microbatch sends along an edge; what of it is saved is not known here.
FlowBytes flow_bytes(const Graph& model, const StageEdge& edge, int64_t microbatch);

/// Bytes of a microbatch's target; 0 where the loss needs none.
int64_t target_bytes(const Job& job, const Graph& model, int64_t microbatch);

/// Bytes that the optimizer takes for a while to step the largest of a rank's tensors, one after
/// the other on a CPU; on a GPU its fused kernels take none.
int64_t optimizer_transient_bytes(const OptimizerSpec& optimizer, const DeviceInfo& device,
                                  int64_t largest_bytes);

}  // namespace penstock
