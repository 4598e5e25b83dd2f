#include "backend/executor/step_metrics.hpp"

#include <cmath>
#include <string>

#include "backend/communication/gather.hpp"
#include "backend/executor/update/gradient_norm.hpp"
#include "launch/worker_protocol.hpp"

namespace penstock {

namespace {

/// Over the ranks of all replicas each parameter is counted once, however many hold it.
std::set<int> counted_tensors(const Rank& rank) {
  const Model& model = rank.model;
  if (rank.replica != 0) return {};
  return first_held(model.graph, model.slicing, model.program.rank_of_stage, rank.index);
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
      max_norm_(rank.training ? rank.model.plan.job.optimizer.clip_norm : 0) {}

void StepMetrics::begin_step(int64_t step) {
  step_ = step;
  loss_ = 0;
  gradient_norm_.reset();
  unread_losses_.clear();
  const Plan& plan = rank_.model.plan;
  const auto count = static_cast<size_t>(plan.microbatches);
  weights_of_own_.assign(count, 1);
  loss_scales_.assign(count, 1);
  microbatch_losses_.assign(count * static_cast<size_t>(plan.data_parallel), 0);
  weight_ = 0;
  if (!rank_.has_loss) return;
  // Summed by microbatch: the model may not take the global batch at once.
  for (int64_t m = 0; m < plan.microbatches * plan.data_parallel; ++m)
    weight_ += weight_of(step * plan.job.global_batch + m * plan.microbatch);
  for (int m = 0; m < plan.microbatches; ++m) {
    const int64_t first = rank_.first_sample(step, m);
    const double own = weight_of(first);
    weights_of_own_[static_cast<size_t>(m)] = own;
    // The model's own loss is a sum by then, not a mean.
    loss_scales_[static_cast<size_t>(m)] = (rank_.mean_loss && counts(first) ? 1 : own) / weight_;
  }
}

bool StepMetrics::counts(int64_t first) const {
  return rank_.training || first < rank_.data.samples();
}

double StepMetrics::weight_of(int64_t first) const {
  return counts(first) ? weights_.of(first, rank_.model.plan.microbatch) : 0;
}

void StepMetrics::add_loss(const at::Tensor& loss, int microbatch) {
  if (loss.is_cpu()) {
    count_loss(loss.item<double>(), microbatch);
  } else {
    unread_losses_.emplace_back(loss, microbatch);
  }
}

void StepMetrics::count_loss(double loss, int microbatch) {
  const auto m = static_cast<size_t>(microbatch);
  loss_ += loss * loss_scales_[m];
  const auto before = static_cast<size_t>(rank_.replica * rank_.model.plan.microbatches);
  microbatch_losses_[before + m] = rank_.mean_loss ? loss / weights_of_own_[m] : loss;
}

void StepMetrics::sum_over_ranks(bool stop) {
  for (const auto& [loss, microbatch] : unread_losses_) count_loss(loss.item<double>(), microbatch);
  std::vector<double> sums{loss_, max_norm_ > 0 ? squared_norm(rank_.store, counted_) : 0};
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
  clip_gradients(rank_.store, *gradient_norm_, max_norm_);
}

}  // namespace penstock
