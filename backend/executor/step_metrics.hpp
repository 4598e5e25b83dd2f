// The loss of a step and the norm of its gradients: each microbatch's share, the sum over all
// ranks, and clipping by it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backend/executor/loss_weights.hpp"
#include "backend/executor/rank.hpp"

namespace penstock {

/// The loss, or the norm that gradients are clipped by, is infinite or not a number; thrown on
/// every rank, before OPT.
class LossNotFinite : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class StepMetrics {
 public:
  /// `rank` outlives it.
  explicit StepMetrics(Rank& rank);

  /// Weighs the microbatches as far as this rank can read them.
  void begin_step(int64_t step);
  /// Exchanges the weights between ranks that read only their own samples; all of them call it
  /// after begin_step.
  void share_weights();
  /// Multiplies the loss of a microbatch, a mean, by its share of the step's: equal, or by the
  /// targets that it counts; over the microbatches of all replicas the shares add up to 1. A
  /// mean_loss, which is a sum by then, it divides by the count of the global batch. Where forwards
  /// alone evaluate the model each sample counts once: microbatches beyond the last have no share.
  double loss_scale(int microbatch) const { return loss_scales_[static_cast<size_t>(microbatch)]; }
  /// Adds a microbatch's loss. On a GPU it is read when the ranks sum: reading it here would
  /// wait until it is computed.
  void add_loss(const at::Tensor& loss, int microbatch);
  /// Forgets the losses that have not been read.
  void drop_losses() { unread_losses_.clear(); }
  /// Sums the loss, and where the job clips the gradients' norm, over all ranks, which all call it;
  /// gradients are summed by then. `stop`: this rank asks for the run to end after the step. Throws
  /// LossNotFinite for the loss, in training.
  void sum_over_ranks(bool stop = false);
  /// Clips this rank's gradients where the job clips. Throws LossNotFinite for the norm.
  void clip();

  /// The mean over all microbatches of all replicas; 0 where only forwards run.
  double loss() const { return loss_; }
  /// The mean over each microbatch, replica by replica, which is the order of the samples; not a
  /// number where a model's own mean counts no target of a microbatch.
  const std::vector<double>& microbatch_losses() const { return microbatch_losses_; }
  /// The number of samples, or of targets that count, that the step's loss is the mean of.
  double weight() const { return weight_; }
  /// The norm over all ranks, before clipping; nothing where the job does not clip.
  std::optional<double> gradient_norm() const { return gradient_norm_; }
  /// Some rank has asked for the run to end after this step: all ranks know it of the same step.
  bool stop() const { return stop_; }

 private:
  /// Whether the microbatch that begins with this sample counts.
  bool counts(int64_t first) const;
  double weight_of(int64_t first) const;
  bool weighs(int64_t microbatch) const;
  void set_scales();
  void count_loss(double loss, int microbatch);

  Rank& rank_;
  const LossWeights weights_;
  const std::set<int> counted_;  // tensors whose gradients this rank adds to the norm
  const double max_norm_;        // 0: the job does not clip
  const bool shares_weights_;    // each rank can weigh only its own microbatches
  int64_t step_ = 0;
  std::vector<double> microbatch_weights_;                 // of all replicas
  std::vector<double> loss_scales_;                        // by microbatch of this replica
  std::vector<std::pair<at::Tensor, int>> unread_losses_;  // each with its microbatch
  std::vector<double> microbatch_losses_;                  // of all replicas
  double loss_ = 0, weight_ = 0, squared_norm_ = 0;
  std::optional<double> gradient_norm_;
  bool stop_ = false;
};

}  // namespace penstock
