// Runs the lowered program of one rank against tensors, step by step: one method per kind of
// action.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/data/data.hpp"
#include "backend/device/device.hpp"
#include "backend/executor/exchange.hpp"
#include "backend/executor/optimizer.hpp"
#include "backend/executor/reduction.hpp"
#include "backend/executor/transmission.hpp"
#include "backend/stage/recipe/store.hpp"
#include "backend/stage/replayed_stage.hpp"
#include "launch/execute_task.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/program/timeline.hpp"

namespace penstock {

/// What all ranks of a run share; it outlives the executor.
struct Model {
  const Plan& plan;
  const Graph& graph;
  const Analysis& analysis;
  const Slicing& slicing;
  const Program& program;  // lowered
};

struct StepResult {
  double loss = 0;  // mean over all microbatches of all replicas; 0 where only forwards run
  std::optional<double> gradient_norm;  // of all ranks, before clipping; where the job clips
  double step_s = 0;  // on this rank, from its first action to the end of its last
  Timeline timeline;  // of this rank, seconds on its steady clock
  std::map<int, at::Tensor>
      outputs;  // of forwards only: by index in Graph::outputs, samples in order
};

/// Whether the steps replay what a warm-up recorded, and what it found.
struct Replaying {
  bool on = false;
  std::string why_not;    // where it is off though it was asked for
  double run_s = 0;       // a step's compute without transfers as it runs …
  double replayed_s = 0;  // … and replayed; 0: not measured
};

/// The loss, or the norm that gradients are clipped by, is infinite or not a number; thrown on
/// every rank, before OPT.
class LossNotFinite : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Executor {
 public:
  /// Rank of the run = replica x plan.ranks() + rank of the pipeline. Loads the rank's stages.
  /// Throws InputError. `device` outlives the executor.
  Executor(const Model& model, const Data& data, Communicator& communicator, int receive_depth = 2,
           ComputeDevice& device = cpu_device());

  /// Runs a step's compute without transfers, sums or OPT, on zeros where something is received,
  /// and leaves everything as it was: a GPU's memory is then asked for, and its kernels are loaded,
  /// while no receive waits. With `graphs` the compute is then recorded, which only a GPU can (CUDA
  /// graphs); `automatic` keeps the recordings where a step of them takes less time.
  Replaying warm_up(int64_t step, CudaGraphs graphs = CudaGraphs::never);

  /// One step of training, or of forwards if the program has no backward.
  StepResult run_step(int64_t step);

  /// Called before each action with its position in the rank's program, and with -1 between.
  std::function<void(int64_t step, int position)> on_action;
  /// Called on every rank at the same point of a step: gradients are summed, OPT is next.
  std::function<void(int64_t step)> on_gradients;

  TensorStore& store() { return *store_; }
  Optimizer& optimizer() { return optimizer_; }
  /// Does this rank update a parameter that it holds? Another may do so and transmit the value.
  bool steps(int tensor) const { return !received_.contains(tensor); }
  /// Memory of the recordings that no tensor holds.
  int64_t recorded_bytes() const { return recorder_ ? recorder_->unheld_bytes() : 0; }
  /// Gives their memory back; later steps run.
  void forget_recordings();

 private:
  using Slot = std::pair<int, int>;  // stage, microbatch
  void run(size_t position, const Action& action);
  void forward(const Action& action);
  void backward(const Action& action);
  void send(size_t position, const Action& action);
  void receive(size_t position, const Action& action);
  void overlap(size_t position, const Action& action);
  void reduce();
  void agree();
  void optimize(int stage);

  void ask_for_memory(int64_t step);
  std::vector<at::Tensor> pin_inputs() const;
  void dry_actions(int64_t step);
  double dry_step(int64_t step);
  std::string no_recordings() const;
  Replaying record(int64_t step, CudaGraphs graphs);
  std::string try_recordings(int64_t step, CudaGraphs graphs, Replaying& times);
  void record_step(int64_t step);
  double least_dry_step_s(int64_t step);
  int64_t missing_state_bytes();

  void begin(int64_t step);
  Timeline timeline(const std::vector<double>& times) const;
  Values inputs(int stage, int microbatch);
  Values summed_gradients(Slot slot);
  void hand_over(int from, int to, int microbatch, bool gradients, const Values& values);
  void plan_losses();
  void clip(double squared_norm);
  void note_loss(const at::Tensor& loss, double scale);
  int64_t first_sample(int microbatch) const;
  const std::vector<Action>& actions() const { return model_.program.ranks[rank_]; }
  bool mine(int stage) const { return model_.program.rank_of_stage[stage] == rank_; }

  const Model model_;
  const Data& data_;
  Communicator& communicator_;
  int rank_, replica_;
  ComputeDevice& device_;
  std::unique_ptr<Marks> marks_;
  bool training_;
  std::unique_ptr<TensorStore> store_;
  std::map<int, std::unique_ptr<ReplayedStage>> stages_;
  std::unique_ptr<Recorder> recorder_;            // while the stages replay
  std::map<int, at::Tensor> replayed_gradients_;  // where replays leave those of parameters
  Exchange exchange_;
  std::vector<ReductionGroup> groups_;
  std::vector<Transmission> transmissions_;
  std::set<int> received_;       // tensors that another rank updates
  const std::set<int> trained_;  // of the whole model: those that the loss depends on
  std::set<int> counted_;        // tensors whose gradients this rank adds to the norm
  Optimizer optimizer_;
  int reduce_at_ = -1;   // the REDUCE_GRAD that no compute or transfer follows, or -1: before OPT
  int publish_at_ = -1;  // the last OPT

  // Of the step under way:
  int64_t step_ = 0;
  double loss_ = 0;
  std::optional<double> gradient_norm_;
  std::vector<std::pair<at::Tensor, double>> losses_;  // on a GPU: not read yet, each its scale
  bool reduced_ = false, agreed_ = false;
  std::vector<double> loss_scales_;  // by microbatch; they add up to 1 over the replicas
  std::map<Slot, Values> arrived_;   // inputs of a stage
  std::map<Slot, std::map<ValueId, std::map<int, at::Tensor>>> gradients_;  // by consumer stage
  std::map<std::tuple<int, int, int, bool>, Values> outbox_;  // from, to, microbatch, gradients
  std::map<int, std::map<int, at::Tensor>> outputs_;          // by output, microbatch
  std::set<int> optimized_;                                   // tensors that OPT has stepped
  std::set<size_t> sent_early_;                               // positions of SENDs
};

}  // namespace penstock
