// Runs the lowered program of one rank against tensors, step by step.
//
//   Rank                its place, device, stages and tensors
//   MicrobatchActions   F, B, I, W, SEND, RECV
//   Mailbox             the tensors under way between stages
//   UpdateActions       REDUCE_GRAD, OPT
//   StepMetrics         the loss and the gradients' norm
//   DrySteps            what happens before the first step; replay_choice.hpp: CUDA graphs
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "backend/executor/mailbox.hpp"
#include "backend/executor/microbatch_actions.hpp"
#include "backend/executor/rank.hpp"
#include "backend/executor/replay_choice.hpp"
#include "backend/executor/step_metrics.hpp"
#include "backend/executor/update_actions.hpp"
#include "pipeline/program/timeline.hpp"

namespace penstock {

struct StepResult {
  double loss = 0;         // mean over all microbatches of all replicas; 0 where none is computed
  double loss_weight = 0;  // the samples, or the targets that count, which it is the mean of
  std::vector<double> microbatch_losses;  // replica by replica; StepMetrics::microbatch_losses
  std::optional<double> gradient_norm;    // of all ranks, before clipping; where the job clips
  double step_s = 0;  // on this rank, from its first action to the end of its last
  Timeline timeline;  // of this rank, seconds on its steady clock
  bool stop = false;  // some rank has asked for the run to end after this step
  /// The model's outputs, of forwards without a loss: by index in Graph::outputs, samples in order.
  std::map<int, at::Tensor> outputs;
};

class Executor {
 public:
  /// As Rank. `receive_depth` RECVs of each channel are posted ahead.
  Executor(const Model& model, const Data& data, Communicator& communicator, int receive_depth = 2,
           ComputeDevice& device = cpu_device(), std::shared_ptr<TensorStore> store = nullptr);

  /// Runs dry steps (dry_step.hpp), which leave everything as it was but memory and kernels; with
  /// `graphs` then decides whether later steps replay (replay_choice.hpp).
  Replaying warm_up(int64_t step, CudaGraphs graphs = CudaGraphs::never);

  /// One step of training, or of forwards if the program has no backward. With data for the loss
  /// these evaluate the model, each sample once. `learning_rate`: in place of the job's, whose
  /// groups keep their ratio to it. Throws LossNotFinite, of training; another step may follow.
  StepResult run_step(int64_t step, std::optional<double> learning_rate = std::nullopt);

  /// Called before each action with its position in the rank's program, and with -1 between.
  std::function<void(int64_t step, int position)> on_action;
  /// Called at the end of each step, also of one that throws.
  std::function<void()> on_end = [] {};
  /// Called in a step of training before all ranks agree that it counts, and then update: returns
  /// whether this rank asks for the run to end after it.
  std::function<bool()> on_agreement;
  /// Called on every rank at the same point of a step: gradients are summed, OPT is next. Where
  /// optimizer state is sharded a rank has the sums of its own part, until all gather_gradients.
  std::function<void(int64_t step)> on_gradients;
  void gather_gradients() { update_.gather_gradients(); }

  TensorStore& store() { return rank_.store; }
  /// Call it after changing stored tensors between steps.
  void refresh();
  /// For another executor of this rank, which then has the same tensors.
  std::shared_ptr<TensorStore> shared_store() { return rank_.shared_store; }
  Optimizer& optimizer() { return update_.optimizer(); }
  /// Bytes that the optimizer asks for at its first step.
  int64_t missing_state_bytes() { return update_.missing_state_bytes(); }
  /// This rank's share of the optimizer's state, and the other ranks'.
  const OptimizerShards& shards() const { return rank_.shards; }
  /// The ranks that run operators on parts, and how they hold a tensor.
  const TensorGroup& group() const { return rank_.group; }
  sharding::Layout layout(int tensor) const { return rank_.model.layout(tensor); }
  /// Does this rank update a parameter that it holds? Another may do so and broadcast it.
  bool updates(int tensor) const { return update_.updates(tensor); }
  /// Memory of captured graphs that no tensor holds.
  int64_t graph_bytes() const { return rank_.captured.unheld_bytes(); }
  /// Gives their memory back; later steps run.
  void forget_graphs() { penstock::forget_graphs(rank_); }

 private:
  void begin_step(int64_t step, std::optional<double> learning_rate);
  void run(size_t position);
  void end_backward();
  void end_evaluation();
  Timeline timeline(const std::vector<double>& times) const;

  Rank rank_;
  std::unique_ptr<Marks> marks_;
  Mailbox mailbox_;
  StepMetrics metrics_;
  MicrobatchActions microbatches_;
  UpdateActions update_;
  int64_t step_ = 0;
  bool backward_ended_ = false;  // in this step
};

}  // namespace penstock
