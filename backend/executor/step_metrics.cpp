#include "backend/executor/step_metrics.hpp"

#include <cmath>
#include <numeric>
#include <string>

#include "backend/communication/gather.hpp"
#include "backend/executor/update/gradient_norm.hpp"
#include "launch/worker_protocol.hpp"
#include "pipeline/plan/samples_read.hpp"

namespace penstock {

namespace {

/// Over the ranks of all replicas each parameter is counted once, however many hold it, or each of
/// its parts.
std::set<int> counted_tensors(const Rank& rank) {
  const Model& model = rank.model;
  if (model.plan.optimizer_state == OptimizerState::sharded) {
    std::set<int> stepped;
    for (const auto& [tensor, part] : rank.shards.parts()) {
      const bool whole = model.layout(tensor) == sharding::Layout::identical();
      if (!whole || rank.group.part == 0) stepped.insert(tensor);  // as below
    }
    return stepped;
  }
  if (rank.replica != 0) return {};
  std::set<int> held =
      first_held(model.graph, model.slicing, model.program.rank_of_stage, rank.index);
  if (rank.group.part != 0)  // part 0 counts what all hold whole
    std::erase_if(held, [&](int tensor) { return !model.layout(tensor).is_split(); });
  return held;
}

[[noreturn]] void not_finite(const std::string& name, int64_t step, double value) {
  // The sign of a value that is not a number depends on the processor.
  const std::string text = std::isnan(value) ? "nan" : std::to_string(value);
  throw LossNotFinite(name + " of step " + std::to_string(step_number(step)) + " is " + text +
                      "; the parameters were not changed by it. "
                      "Lower the learning rate, or look for bad values in the data.");
}

}  // namespace

StepMetrics::StepMetrics(Rank& rank)
    : rank_(rank),
      weights_(rank.model.graph, rank.mean_loss, rank.data, rank.model.weights),
      counted_(counted_tensors(rank)),
      max_norm_(rank.training ? rank.model.plan.job.optimizer.clip_norm : 0),
      shares_weights_(rank.has_loss && !rank.data.complete() && weights_.vary()) {}

void StepMetrics::begin_step(int64_t step) {
  step_ = step;
  loss_ = 0;
  gradient_norm_.reset();
  unread_losses_.clear();
  const Plan& plan = rank_.model.plan;
  const auto count = static_cast<size_t>(plan.microbatches);
  const size_t all = count * static_cast<size_t>(plan.data_parallel);
  loss_scales_.assign(count, 1);
  microbatch_weights_.assign(all, 0);
  microbatch_losses_.assign(all, 0);
  weight_ = 0;
  if (!rank_.has_loss) return;
  // By microbatch: the model may not take the global batch at once.
  for (size_t m = 0; m < all; ++m) {
    const auto microbatch = static_cast<int64_t>(m);
    if (!weighs(microbatch)) continue;
    microbatch_weights_[m] = weight_of(step * plan.job.global_batch + microbatch * plan.microbatch);
  }
  set_scales();
}

/// A rank that can read no samples but its own weighs the microbatches whose loss it computes.
bool StepMetrics::weighs(int64_t microbatch) const {
  if (!shares_weights_) return true;
  return microbatch / rank_.model.plan.microbatches == rank_.replica && rank_.group.part == 0 &&
         rank_.has_stage(stage_of_output(rank_.model.slicing, 0));
}

void StepMetrics::share_weights() {
  if (!shares_weights_) return;
  sum_over_all(rank_.communicator, microbatch_weights_);
  set_scales();
}

void StepMetrics::set_scales() {
  weight_ = std::accumulate(microbatch_weights_.begin(), microbatch_weights_.end(), 0.0);
  const int64_t microbatches = rank_.model.plan.microbatches;
  for (int64_t m = 0; m < microbatches; ++m) {
    const double own = microbatch_weights_[static_cast<size_t>(rank_.replica * microbatches + m)];
    // The model's own loss is a sum by then, not a mean.
    const bool sum = rank_.mean_loss && counts(rank_.first_sample(step_, static_cast<int>(m)));
    loss_scales_[static_cast<size_t>(m)] = (sum ? 1 : own) / weight_;
  }
}

bool StepMetrics::counts(int64_t first) const {
  return rank_.training || rank_.data.has_sample(first);
}

double StepMetrics::weight_of(int64_t first) const {
  return counts(first) ? weights_.of(first, rank_.model.plan.microbatch) : 0;
}

void StepMetrics::add_loss(const at::Tensor& loss, int microbatch) {
  if (rank_.group.part != 0) return;  // which all have
  if (loss.is_cpu()) {
    count_loss(loss.item<double>(), microbatch);
  } else {
    unread_losses_.emplace_back(loss, microbatch);
  }
}

void StepMetrics::count_loss(double loss, int microbatch) {
  if (!counts(rank_.first_sample(step_, microbatch))) return;
  const auto m = static_cast<size_t>(microbatch);
  loss_ += loss * loss_scales_[m];
  const auto before = static_cast<size_t>(rank_.replica * rank_.model.plan.microbatches);
  const double weight = microbatch_weights_[before + m];
  microbatch_losses_[before + m] = rank_.mean_loss ? loss / weight : loss;
}

void StepMetrics::sum_over_ranks(bool stop) {
  for (const auto& [loss, microbatch] : unread_losses_) count_loss(loss.item<double>(), microbatch);
  std::vector<double> sums{
      loss_, max_norm_ > 0 ? squared_norm(rank_.store, counted_, rank_.shards.parts()) : 0};
  sums.insert(sums.end(), microbatch_losses_.begin(), microbatch_losses_.end());
  sums.push_back(stop ? 1 : 0);
  sum_over_all(rank_.communicator, sums);
  loss_ = sums[0];
  squared_norm_ = sums[1];
  microbatch_losses_.assign(sums.begin() + 2, sums.end() - 1);
  stop_ = sums.back() > 0;
  if (rank_.training && !std::isfinite(loss_)) not_finite("the loss", step_, loss_);
}

void StepMetrics::clip() {
  if (max_norm_ <= 0) return;
  gradient_norm_ = std::sqrt(squared_norm_);
  if (!std::isfinite(squared_norm_)) {
    not_finite("the norm of the gradients", step_, *gradient_norm_);
  }
  clip_gradients(rank_.store, *gradient_norm_, max_norm_, rank_.shards.parts());
}

}  // namespace penstock
