// FLOPs and bytes that each operator computes and moves, forward and backward.
#pragma once

#include <vector>

#include "estimate/device.hpp"
#include "estimate/model.hpp"

namespace penstock {

/// One kernel, or several like it.
struct Work {
  OperatorClass kind = OperatorClass::elementwise;
  DType dtype = DType::float32;
  double flops = 0, bytes = 0;
};

/// One operator for one microbatch. B is I and W, one after the other.
struct OperatorWork {
  std::vector<Work> forward, input, weight;
};

/// The forward is graph/operators/flops.hpp's. Backward:
/// - a product takes as much for each factor that gets a gradient: I for data, W for parameters;
/// - fused attention takes 2.5 times its forward in I: it multiplies five times where the forward
///   does twice (Dao, "FlashAttention-2", 2023, section 4.1);
/// - others read the gradient and what they saved and write the gradient of each operand; sums,
///   copies and views pass theirs on for nothing, unless it has to be summed because they broadcast
///   the operand;
/// - a lookup clears a gradient of the whole table and adds the rows to it;
/// - a value that several operators read costs an addition for each but the first of its gradients;
/// - what is gathered again is copied as in the forward, where I or W needs it;
/// - W adds each parameter's gradient to the stored one.
/// Aliases, constants and what is computed from parameters alone cost nothing.
OperatorWork work_of(const EstimateModel& model, const Operator& op, int64_t batch, bool cuda);

/// Work of the loss on the model's first output: forward, and backward as `input`.
OperatorWork work_of_loss(const EstimateModel& model, Loss loss, int64_t batch);
/// Bytes that the loss keeps of its own from F to its backward.
int64_t saved_by_loss(const EstimateModel& model, Loss loss, int64_t batch);
/// The value that the loss is computed from, or -1.
ValueId loss_input(const EstimateModel& model);

/// Adding a gradient to a stored one moves three bytes for each of the parameter's, clearing one,
/// and an optimizer's step reads gradient, parameter and states and writes all but the gradient.
/// Clipping reads the gradient twice and writes it; with `precision: bf16` all that is float32, and
/// the parameter is written once more.
constexpr double accumulate_traffic = 3, zero_traffic = 1;
double optimizer_traffic(const Job& job);

/// Seconds that the device takes for work at full efficiency: the longer of computing and moving.
double ideal_s(const DeviceSpec& device, const Work& work);
/// The same at the class's efficiency, with a launch for each.
double seconds(const DeviceSpec& device, const std::vector<Work>& work);

}  // namespace penstock
