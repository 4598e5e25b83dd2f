// Runs one training step in order, without ranks: by stages, and by their reference.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "backend/stage/recipe/store.hpp"
#include "backend/stage/stage.hpp"
#include "graph/analysis/analysis.hpp"
#include "graph/cuts/slice.hpp"
#include "pipeline/job/job.hpp"

namespace penstock::test {

/// The device of stages and their reference: the CPU, or with PENSTOCK_TEST_DEVICE=cuda a GPU,
/// which main.cpp has opened.
at::Device test_device();
at::Tensor on_test_device(const at::Tensor& tensor);
std::map<int, at::Tensor> on_test_device(const std::map<int, at::Tensor>& tensors);

/// The data of one step.
struct Batch {
  std::vector<Values> inputs;  // per microbatch
  std::vector<at::Tensor> targets;
  int64_t size = 0;  // of a microbatch
};

struct StepOutcome {
  std::vector<double> losses;           // of each microbatch
  std::map<int, at::Tensor> gradients;  // by tensor; only those that have one
  std::map<int, at::Tensor> buffers;    // after the step
};

/// Runs the whole graph by LibTorch's own autograd, operator by operator, with plain parameters.
StepOutcome reference_step(const Graph& graph, const std::map<int, at::Tensor>& tensors,
                           const Batch& batch, Loss loss);

enum class Backward { whole, split };

/// A row of stages, each of which feeds the next ones.
class StageRow {
 public:
  /// Stage s begins at operator begins[s]. `recompute`: each recomputes all of its forward.
  StageRow(const Graph& graph, const std::map<int, at::Tensor>& tensors,
           const std::vector<OperatorId>& begins, Loss loss, bool recompute = false);

  /// Forwards run `ahead` microbatches before the backwards.
  StepOutcome step(const Batch& batch, Backward backward, int ahead = 0);

  double forward(const Batch& batch, int microbatch, bool training = true);
  void backward(int microbatch, Backward backward);
  Stage& stage(size_t index) { return *stages_[index]; }
  TensorStore& store(size_t index) { return *stores_[index]; }
  std::map<int, at::Tensor> outputs;  // of the last forward without training

 private:
  Values gradients_for(int stage, const std::map<int, Values>& returned) const;
  StepOutcome collect();

  const Graph& graph_;
  Analysis analysis_;
  Slicing slicing_;
  double scale_ = 1;
  std::vector<std::unique_ptr<TensorStore>> stores_;
  std::vector<std::unique_ptr<Stage>> stages_;
};

/// Copies, so that a run does not change another's.
std::map<int, at::Tensor> clones(const std::map<int, at::Tensor>& tensors);

/// Begins of `stages` stages of about as many operators each, where the model may be cut (reads
/// and updates of a buffer stay together).
std::vector<OperatorId> even_begins(const Graph& graph, int stages);

/// Fails unless the losses agree within `tolerance` and every gradient within `tolerance` of its
/// norm, or of 1e-5 of the norm of all gradients where that is larger (some are zero but for
/// rounding).
void expect_close(const StepOutcome& actual, const StepOutcome& expected, double tolerance,
                  const Graph& graph);
/// Fails unless both have the same gradients, bit for bit; on a GPU, of which some kernels add in
/// any order, within 1e-10 of their norm, 1e-5 in lower precisions than float64.
void expect_identical_gradients(const StepOutcome& actual, const StepOutcome& expected,
                                const Graph& graph);

}  // namespace penstock::test
