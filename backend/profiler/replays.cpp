#include "backend/profiler/replays.hpp"

#include <exception>

#include "backend/profiler/samples.hpp"
#include "backend/stage/make_stage.hpp"

namespace penstock::profiler {
namespace {

/// Timed passes; a pass is two microbatches: F and B, then F, I and W.
constexpr int kTimedPasses = 2;

/// The model as one stage.
class WholeModel {
 public:
  explicit WholeModel(Subject& subject)
      : subject_(subject),
        watch_(subject.device),
        slicing_(slice(subject.graph, subject.analysis, interval_stages(subject.graph, {0}), 1)),
        stage_(make_stage(subject.graph, subject.analysis, slicing_, 0, subject.store,
                          subject.job.loss, &captured_)) {}

  bool has_random() const { return stage_->has_random(); }

  /// The first pass computes constants and loads kernels.
  ActionTimes replayed(int64_t microbatch, std::unique_ptr<GraphCapture> capture) {
    const Batch batch = subject_.batches.read(0, microbatch);
    const StepContext context = subject_.context(microbatch, 0);
    const auto run = [](ActionSamples& /*samples*/, const auto& action) { action(); };
    pass(batch, context, run);
    subject_.device.give_back_memory();  // graphs cannot use what the allocator keeps
    captured_.capture(std::move(capture));
    pass(batch, context, run);
    captured_.replay();
    time_passes(batch, context);
    return {forward_.measured(), backward_.measured(), backward_input_.measured(),
            backward_weight_.measured()};
  }

 private:
  /// Runs passes back to back and leaves the first out: a device that has nothing to do yet would
  /// wait for its host.
  void time_passes(const Batch& batch, const StepContext& context) {
    std::vector<std::pair<ActionSamples*, Seconds>> times;
    // Its elements must not move until the watch has finished.
    times.reserve(size_t{5} * (1 + kTimedPasses));
    watch_.begin(false);
    size_t uncounted = 0;
    for (int i = 0; i <= kTimedPasses; ++i) {
      pass(batch, context, [&](ActionSamples& samples, const auto& action) {
        watch_.time(times.emplace_back(&samples, Seconds()).second, action);
      });
      if (i == 0) uncounted = times.size();
    }
    watch_.finish();
    for (size_t i = uncounted; i < times.size(); ++i)
      times[i].first->add(times[i].second, false, false);
  }

  template <class Perform>
  void pass(const Batch& batch, const StepContext& context, Perform perform) {
    for (const bool split : {false, true}) {
      perform(forward_, [&] {
        stage_->forward(split ? 1 : 0, batch.inputs,
                        stage_->needs_target() ? batch.target : std::nullopt, context);
      });
      if (split) {
        perform(backward_input_, [&] { stage_->backward_input(1, {}); });
        perform(backward_weight_, [&] { stage_->backward_weight(1); });
      } else {
        perform(backward_, [&] { stage_->backward(0, {}); });
      }
    }
    stage_->finish_step();
  }

  Subject& subject_;
  Stopwatch watch_;
  const Slicing slicing_;
  CapturedActions captured_;
  const std::unique_ptr<Stage> stage_;
  ActionSamples forward_, backward_, backward_input_, backward_weight_;
};

}  // namespace

Replays measure_replays(Subject& subject, int64_t microbatch) {
  std::unique_ptr<GraphCapture> capture = subject.device.make_graph_capture();
  if (!capture) return {{}, "this device records nothing"};
  WholeModel model(subject);
  if (model.has_random()) return {{}, "the model draws random numbers, others in each step"};
  try {
    return {model.replayed(microbatch, std::move(capture)), ""};
  } catch (const c10::Error& error) {
    return {{}, error.what_without_backtrace()};
  } catch (const std::exception& error) {
    return {{}, error.what()};
  }
}

}  // namespace penstock::profiler
