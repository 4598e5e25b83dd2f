// The interface of a stage of the model: its forward, and its backward whole or split into input
// and weight gradients. make_stage.hpp says which implementation a stage gets.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <optional>

#include "backend/operators/random.hpp"
#include "backend/stage/observer.hpp"
#include "graph/graph.hpp"

namespace penstock {

/// Tensors by value id.
using Values = std::map<ValueId, at::Tensor>;

/// The step that a forward belongs to.
struct StepContext {
  RandomKey random;   // seed, step, and replica x M + microbatch
  int64_t batch = 1;  // microbatch size
  /// Multiplies the microbatch's loss: 1 / (microbatches x data_parallel), or its counted targets
  /// over those of the whole global batch.
  double loss_scale = 1;
  /// Replaces `loss_scale` where the forward is captured: a float64 scalar on the stage's device.
  std::optional<at::Tensor> captured_loss_scale;
  bool float32_loss = false;            // computed in float32 from the model's output
  bool training = true;                 // false: no autograd, nothing is kept, no buffer changes
  bool outputs = true;                  // gives the user outputs, where not training
  ForwardObserver* observer = nullptr;  // of the forward; may be null
};

/// A stage exchanges tensors only through arguments and results. These may share memory with what
/// the stage keeps, and with one another: nobody writes to a result, nor to an argument before the
/// microbatch's backward (with I: its W) has ended.
///
/// Order: each microbatch runs F, then B, or F, I and W; microbatches interleave freely, and
/// `finish_step` follows the last backward of a step.
///
/// Throws InputError where data, model and loss do not fit together; OutOfMemory;
/// std::runtime_error naming the operator, or stage and microbatch, where LibTorch fails;
/// std::logic_error for actions out of order. A forward that throws leaves nothing behind.
class Stage {
 public:
  virtual ~Stage() = default;

  struct Forward {
    Values sent;                        // detached, contiguous: each value another stage uses
    std::optional<at::Tensor> loss;     // mean over the microbatch, unscaled, detached
    std::map<int, at::Tensor> outputs;  // user outputs by index, as the context says
  };
  /// F. `inputs`: received values and user inputs. `target`: where this stage computes the loss and
  /// needs it. In training keeps what the microbatch's backward needs.
  virtual Forward forward(int microbatch, const Values& inputs,
                          const std::optional<at::Tensor>& target, const StepContext& context) = 0;

  /// B. `gradients`: of each sent value that carries one, already summed over its consumers. Adds
  /// parameter gradients to the store; returns the gradients of received values that carry one,
  /// zeros where autograd gives none. Frees what the microbatch held.
  virtual Values backward(int microbatch, const Values& gradients) = 0;
  /// I: takes and returns the same, and keeps what W needs.
  virtual Values backward_input(int microbatch, const Values& gradients) = 0;
  /// W: adds the parameter gradients, equal to B's to the last bit, and frees the rest.
  virtual void backward_weight(int microbatch) = 0;
  /// Sends the summed gradients of parameter-derived values back to their parameters.
  virtual void finish_step() = 0;
  /// Drops what unfinished microbatches hold and what was computed from stored tensors; call it
  /// after changing those from outside.
  virtual void reset() = 0;
  /// Computes anew, in the same memory, what was computed from stored tensors; call it after
  /// changing those between steps.
  virtual void refresh() = 0;

  /// How often a backward adds to the gradient of each tensor (by index in Graph::tensors), at
  /// most; counts what `finish_step` adds, too.
  virtual std::map<int, int> gradient_uses() const = 0;

  virtual bool has_loss() const = 0;
  virtual bool needs_target() const = 0;
  /// Does an operator draw random numbers?
  virtual bool has_random() const = 0;
  virtual at::Device device() const = 0;
};

}  // namespace penstock
