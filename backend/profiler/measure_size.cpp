#include "backend/profiler/measure_size.hpp"

#include <algorithm>

#include "backend/device/clock.hpp"
#include "backend/profiler/constants.hpp"
#include "backend/profiler/timing/agree.hpp"
#include "backend/profiler/timing/budget.hpp"
#include "backend/profiler/timing/statistics.hpp"

namespace penstock::profiler {
namespace {

/// Microbatches right after an optimizer step that are measured, for the excess of the first one.
constexpr int kFirstMicrobatches = 2;

double total(const ChainRun& run) {
  double sum = 0;
  for (const MeasuredTimes& t : run.times) {
    sum +=
        t.forward.device + t.backward.device + t.backward_input.device + t.backward_weight.device;
  }
  return sum;
}

/// The stages' costs without the forward of the loss, which the profile lists apart. A fraction is
/// left even where the loss alone was measured to take longer than all of its stage.
std::vector<StageCost> without_loss(std::vector<StageCost> costs, int loss_stage,
                                    const Measured& loss) {
  if (loss_stage >= static_cast<int>(costs.size())) return costs;
  Measured& forward = costs[loss_stage].times.forward;
  constexpr double kMinShare = 0.05;
  const auto left = [](double all, double part) { return std::max(all - part, kMinShare * all); };
  forward.mean_s = left(forward.mean_s, loss.mean_s);
  forward.median_s = left(forward.median_s, loss.median_s);
  forward.host_s = left(forward.host_s, loss.host_s);
  return costs;
}

/// The measurement of one microbatch size.
class Rounds {
 public:
  Rounds(Subject& subject, int64_t microbatch)
      : subject_(subject),
        microbatch_(microbatch),
        batch_(subject.batches.read(0, microbatch)),
        memory_(subject.graph, subject.device),
        whole_(1),
        units_(subject.by_unit.stages()),
        groups_(subject.by_group.stages()) {}

  /// Repetition `i` of `times`: once F and B, once F, I and W. Every other one, and a single one,
  /// is timed by the device's records, where it has them.
  void measure(int i, int times, Chain& chain, Samples& samples) {
    const bool traced = i % 2 == 1 || times == 1;
    for (const bool split : {false, true}) {
      const StepContext here = subject_.context(microbatch_, repetition_++);
      samples.add(chain.run(batch_, here, split, traced), split);
    }
  }
  /// Microbatch 0 of a step: it follows OPT, and its gradients are stored, not added.
  void measure_first() {
    subject_.step_optimizer();
    subject_.store.clear_gradients();
    first_s_.push_back(
        total(subject_.whole.run(batch_, subject_.context(microbatch_, repetition_++), false)));
  }
  /// Computes the constants of the parts and warms the allocator up.
  void warm_parts() {
    for (Chain* chain : {&subject_.by_unit, &subject_.by_group}) {
      chain->run(batch_, subject_.context(microbatch_, repetition_++), false);
    }
  }
  /// Allocation is the same in every repetition.
  void trace_memory() {
    for (const bool split : {false, true}) {
      subject_.whole.trace_memory(batch_, subject_.context(microbatch_, repetition_++), split,
                                  memory_);
    }
  }
  void round(int i, const Repetitions& repetitions) {
    if (i < kFirstMicrobatches) measure_first();
    if (i == 0) trace_memory();
    if (i < repetitions.whole) measure(i, repetitions.whole, subject_.whole, whole_);
    if (i < repetitions.units) measure(i, repetitions.units, subject_.by_unit, units_);
    if (i < repetitions.operators) measure(i, repetitions.operators, subject_.by_group, groups_);
  }

  SizeResult result(double accumulation_s) const {
    const Measured loss = loss_forward(subject_, microbatch_, batch_);
    const auto costs = [&](const Samples& samples, const Chain& chain) {
      return without_loss(samples.costs(), chain.loss_stage(), loss);
    };
    const StageCost whole = costs(whole_, subject_.whole).front();
    const auto units = costs(units_, subject_.by_unit);
    SizeResult result{.costs = assemble(subject_.division(), microbatch_, whole, units,
                                        costs(groups_, subject_.by_group)),
                      .unit_scale = scale_factors(whole.times, units)};
    add_memory(memory_, result.costs);
    result.peak_bytes = peak_bytes(result.costs);
    ChainVariation variation = units_.variation();
    for (size_t unit = 0; unit < variation.stages.size(); ++unit)
      result.costs.units[unit].jitter = std::move(variation.stages[unit]);
    if (!variation.rounds.empty()) result.costs.rounds = {std::move(variation.rounds)};
    result.costs.loss_forward = loss;
    result.pass_s = whole.pass_s;
    const double first = summarize(first_s_).mean_s + accumulation_s;
    result.costs.first_microbatch_excess = first / result.pass_s - 1;
    return result;
  }

 private:
  Subject& subject_;
  int64_t microbatch_;
  Batch batch_;
  MemoryTrace memory_;
  int repetition_ = 0;
  Samples whole_, units_, groups_;
  std::vector<double> first_s_;
};

/// Once what reading takes is there: a run pins the memory of all inputs before its first step.
double load_s(const Subject& subject, int64_t microbatch) {
  if (subject.batches.made_up()) return 0;
  constexpr int kTimes = 5;
  const auto read = [&](int i) { subject.batches.read(i * microbatch, microbatch); };
  for (int i = 0; i < kTimes; ++i) read(i);
  std::vector<double> seconds;
  for (int i = 0; i < kTimes; ++i) seconds.push_back(time_s([&] { read(i); }));
  return summarize(seconds).median_s;
}

}  // namespace

double warm_up(Subject& subject, int64_t microbatch) {
  const Batch batch = subject.batches.read(0, microbatch);
  return total(subject.whole.run(batch, subject.context(microbatch, 0), false));
}

std::optional<SizeResult> measure_size(Subject& subject, int64_t microbatch,
                                       const Repetitions& repetitions, double accumulate_s_per_byte,
                                       Communicator& communicator,
                                       const std::function<void(double)>& progress) {
  std::optional<Rounds> rounds;
  std::optional<SizeResult> result;
  const bool warm = fits_everywhere(communicator, [&] {
    rounds.emplace(subject, microbatch);
    if (repetitions.warm_parts()) rounds->warm_parts();
  });
  if (!warm) return std::nullopt;
  const int count = std::max({repetitions.whole, repetitions.units, repetitions.operators});
  for (int i = 0; i < count; ++i) {
    if (!fits_everywhere(communicator, [&] { rounds->round(i, repetitions); })) return std::nullopt;
    progress(double(i + 1) / count);
  }
  const bool done = fits_everywhere(communicator, [&] {
    result = rounds->result(accumulate_s_per_byte * double(subject.parameter_bytes()));
  });
  if (!done) return std::nullopt;
  result->repetitions = repetitions;
  result->costs.load_batch_s = load_s(subject, microbatch);
  mean_over_ranks(communicator, result->costs);
  pool_variation(communicator, result->costs);
  mean_over_ranks(communicator, {&result->pass_s});
  return result;
}

}  // namespace penstock::profiler
