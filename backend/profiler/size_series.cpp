#include "backend/profiler/size_series.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "backend/device/clock.hpp"
#include "backend/profiler/timing/agree.hpp"
#include "base/quantity.hpp"

namespace penstock::profiler {
namespace {

/// A GPU's allocator takes memory in blocks of at least 2 MiB, and never the last of it.
constexpr double kGpuMargin = 1.1;

const MicrobatchCosts* find(const std::vector<MicrobatchCosts>& costs, int64_t size) {
  const auto found = std::ranges::find(costs, size, &MicrobatchCosts::microbatch);
  return found == costs.end() ? nullptr : &*found;
}

}  // namespace

SizeSeries::SizeSeries(const Request& request, Communicator& communicator, Subject& subject,
                       std::string of, Reports reports)
    : request_(request),
      communicator_(communicator),
      subject_(subject),
      of_(std::move(of)),
      reports_(std::move(reports)),
      budget_(subject.job.global_batch) {}

void SizeSeries::run(const std::vector<int64_t>& sizes, const std::vector<int64_t>& wanted,
                     const std::vector<MicrobatchCosts>& known, std::vector<int64_t> left_out,
                     double accumulate_s_per_byte) {
  sizes_ = sizes;
  accumulate_s_per_byte_ = accumulate_s_per_byte;
  double done = 0;
  const double began_s = now_s();
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const double part = allowed_steps(i) / request_.effort.steps;
    if (const MicrobatchCosts* costs = find(known, sizes_[i])) {
      budget_.add(*costs);
    } else if (std::ranges::count(wanted, sizes_[i]) > 0 && sizes_[i] < too_large_) {
      if (is_too_long(i, began_s))
        left_out.push_back(sizes_[i]);
      else if (fits(sizes_[i]))
        measure(i, done, part);
    }
    done += part;
  }
  warn_of_sizes_left_out(std::move(left_out));
}

void SizeSeries::warn_of_sizes_left_out(std::vector<int64_t> sizes) const {
  if (sizes.empty()) return;
  std::ranges::sort(sizes);
  reports_.warning(
      fmt::format("not measured, to end within {:g} s and {:g} training steps (--budget TIME sets "
                  "the seconds): microbatch {}{}",
                  request_.effort.seconds, request_.effort.steps, fmt::join(sizes, ", "), of_));
}

/// Would the minimum of repetitions of this size exceed the time?
bool SizeSeries::is_too_long(size_t i, double began_s) {
  if (i < request_.effort.sizes) return false;
  const double spent_s = from_rank(communicator_, 0, now_s() - began_s);
  const double share = double(sizes_[i]) / double(subject_.job.global_batch);
  const double needed_s = request_.effort.minimum.passes() * share * budget_.step_s();
  return spent_s + needed_s > request_.effort.seconds;
}

/// Will this size fit into the machine's memory?
bool SizeSeries::fits(int64_t size) {
  const bool gpu = !subject_.device.where().is_cpu();
  const int sharing = gpu ? request_.ranks_per_device : communicator_.size();
  const double needed =
      largest_over_ranks(communicator_, budget_.bytes(size)) * sharing * (gpu ? kGpuMargin : 1);
  const double available = from_rank(communicator_, 0, double(subject_.device.available_bytes()));
  if (needed <= available) return true;
  reports_.warning(fmt::format("microbatch {}{} is not measured: it would take {} and {} are free",
                               size, of_, format_bytes(needed), format_bytes(available)));
  return false;
}

double SizeSeries::allowed_steps(size_t i) const {
  return profiler::allowed_steps(sizes_, i, subject_.job.global_batch, request_.effort);
}

/// Returns nothing where a rank has no memory for it.
std::optional<SizeResult> SizeSeries::measured(size_t i,
                                               const std::function<void(double)>& progress) {
  const int64_t size = sizes_[i];
  double pass_s = 0;
  if (!fits_everywhere(communicator_, [&] { pass_s = warm_up(subject_, size); }))
    return std::nullopt;
  mean_over_ranks(communicator_, {&pass_s});
  budget_.add_pass(size, pass_s);
  const Effort& effort = request_.effort;
  const double step_s = std::min(budget_.step_s(), effort.seconds / effort.steps);
  const double least_s =
      std::min(effort.size_seconds, effort.seconds / (2.0 * static_cast<double>(sizes_.size())));
  const double allowed_s = std::max(allowed_steps(i) * step_s, least_s);
  Repetitions least = effort.minimum;
  if (i == 0) least.units = std::max(least.units, effort.noise_units);
  return measure_size(subject_, size, repetitions(allowed_s / pass_s, least),
                      accumulate_s_per_byte_, communicator_, progress);
}

void SizeSeries::measure(size_t i, double done, double part) {
  const int64_t size = sizes_[i];
  const std::string what = fmt::format("microbatch {}{}", size, of_);
  const auto progress = [&](double share) { reports_.progress(what, done + part * share); };
  progress(0);
  communicator_.barrier();
  std::optional<SizeResult> result = measured(i, progress);
  if (!result) {
    too_large_ = size;
    for (Chain* chain : {&subject_.whole, &subject_.by_unit, &subject_.by_group}) chain->reset();
    subject_.device.give_back_memory();
    reports_.warning(fmt::format("{} and larger ones are not measured: the memory is full", what));
    return;
  }
  budget_.add_pass(size, result->pass_s);
  budget_.add_bytes(size, result->peak_bytes);
  reports_.measured(std::move(*result));
}

}  // namespace penstock::profiler
