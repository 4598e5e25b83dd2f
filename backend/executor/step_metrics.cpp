#include "backend/executor/step_metrics.hpp"

#include <cmath>
#include <numeric>
#include <string>

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
      weights_(rank.model.graph, rank.mean_loss, rank.data),
      counted_(counted_tensors(rank)),
      max_norm_(rank.training ? rank.model.plan.job.optimizer.clip_norm : 0) {}

void StepMetrics::begin_step(int64_t step) {
  step_ = step;
  loss_ = 0;
  gradient_norm_.reset();
  unread_losses_.clear();
  const Plan& plan = rank_.model.plan;
  loss_scales_.assign(static_cast<size_t>(plan.microbatches), 1);
  weight_ = 0;
  if (!rank_.has_loss) return;
  // Summed by microbatch: the model may not take the global batch at once.
  for (int64_t m = 0; m < plan.microbatches * plan.data_parallel; ++m)
    weight_ += weight_of(step * plan.job.global_batch + m * plan.microbatch);
  for (int m = 0; m < plan.microbatches; ++m) {
    const int64_t first = rank_.first_sample(step, m);
    const double own =  // the model's own loss is a sum by then, not a mean
        rank_.mean_loss && counts(first) ? 1 : weight_of(first);
    loss_scales_[static_cast<size_t>(m)] = own / weight_;
  }
}

bool StepMetrics::counts(int64_t first) const {
  return rank_.training || first < rank_.data.samples();
}

double StepMetrics::weight_of(int64_t first) const {
  return counts(first) ? weights_.of(first, rank_.model.plan.microbatch) : 0;
}

void StepMetrics::add_loss(const at::Tensor& loss, int microbatch) {
  const double scale = loss_scale(microbatch);
  if (loss.is_cpu()) {
    loss_ += loss.item<double>() * scale;
  } else {
    unread_losses_.emplace_back(loss, scale);
  }
}

void StepMetrics::sum_over_ranks() {
  for (const auto& [loss, scale] : unread_losses_) loss_ += loss.item<double>() * scale;
  const bool clips = max_norm_ > 0;
  at::Tensor sums = at::full({clips ? 2 : 1}, loss_, at::kDouble);
  if (clips) sums[1] = squared_norm(rank_.store, counted_);
  std::vector<int> all(static_cast<size_t>(rank_.communicator.size()));
  std::iota(all.begin(), all.end(), 0);
  rank_.communicator.all_reduce(sums, all);
  loss_ = sums[0].item<double>();
  if (rank_.training && !std::isfinite(loss_)) not_finite("the loss", step_, loss_);
  if (clips) squared_norm_ = sums[1].item<double>();
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
