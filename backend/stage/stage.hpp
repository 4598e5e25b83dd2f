// One stage of the model: forward, and the backward whole or split into input and weight.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "backend/operators/interpreter.hpp"
#include "backend/operators/random.hpp"
#include "backend/stage/recipe/store.hpp"
#include "graph/cuts/slice.hpp"
#include "pipeline/job/job.hpp"

namespace penstock {

/// Tensors by value id.
using Values = std::map<ValueId, at::Tensor>;

/// What a forward needs to know about its step.
struct StepContext {
  RandomKey random;   // seed, step, and replica x M + microbatch
  int64_t batch = 1;  // microbatch size
  /// Multiplies each microbatch's mean loss: 1 / (microbatches x data_parallel), or its counted
  /// targets over those of the whole global batch.
  double loss_scale = 1;
  /// Instead, where the stage's forward is recorded: a number in float64 on its device.
  std::optional<at::Tensor> recorded_loss_scale;
  bool float32_loss = false;  // computed in float32 from what the model gives
  bool training = true;       // false: no autograd, nothing is saved
};

/// What one stage runs; it exchanges tensors only through arguments and results. These may share
/// memory with what the stage keeps, and with one another: nobody writes to them, neither to a
/// result nor, before the microbatch's backward (with I: its W) has ended, to an argument.
///
/// Throws InputError where data, model and loss do not fit together; std::runtime_error naming the
/// operator, or stage and microbatch, where LibTorch fails; std::logic_error for actions out of
/// order. A forward that throws leaves nothing behind.
class Stage {
 public:
  /// `store` must hold the stage's tensors and outlive it. `loss` is computed by the stage that
  /// produces the model's first output.
  /// `recompute`: a forward keeps only what it was given, and the backward runs it again first. It
  /// draws the same random numbers and leaves buffers alone; what it reads of a buffer is as of
  /// then. `part_of`: the stage that messages name, where this is a part of one (segments.hpp).
  Stage(const Graph& graph, const Analysis& analysis, const Slicing& slicing, int stage,
        TensorStore& store, Loss loss, bool recompute = false, int part_of = -1);
  ~Stage();

  struct Forward {
    Values sent;                        // detached, contiguous: each value another stage uses
    std::optional<at::Tensor> loss;     // mean over the microbatch, unscaled, detached
    std::map<int, at::Tensor> outputs;  // user outputs by index, when not training
  };
  /// `inputs`: received values and user inputs. `target`: where this stage has the loss and needs
  /// it. Keeps what the backward of this microbatch needs.
  Forward forward(int microbatch, const Values& inputs, const std::optional<at::Tensor>& target,
                  const StepContext& context);

  /// `gradients`: of each sent value that carries one, already summed over its consumers. Adds
  /// parameter gradients to the store; returns the gradients of received values that carry one,
  /// zeros where autograd gives none. Frees what the microbatch held.
  Values backward(int microbatch, const Values& gradients);
  /// The same in two parts: I returns the input gradients and keeps what W needs; W adds the
  /// parameter gradients, equal to B's to the last bit.
  Values backward_input(int microbatch, const Values& gradients);
  void backward_weight(int microbatch);
  /// After the last backward of a step: sends the summed gradients of parameter-derived values
  /// back to their parameters.
  void finish_step();
  /// Drops everything held for unfinished microbatches, and what was computed from stored tensors:
  /// call it after changing those from outside.
  void reset();

  bool has_loss() const;
  bool needs_target() const;
  /// Does an operator draw random numbers?
  bool has_random() const;
  at::Device device() const;
  int index() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
