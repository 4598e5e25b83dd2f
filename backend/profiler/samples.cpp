#include "backend/profiler/samples.hpp"

#include <algorithm>

#include "backend/profiler/timing/statistics.hpp"

namespace penstock::profiler {

void ActionSamples::add(const Seconds& seconds, bool recorded, bool traced) {
  (recorded ? recorded_ : device_).push_back(seconds.device);
  (traced ? traced_host_ : host_).push_back(seconds.host);
}

Measured ActionSamples::measured() const {
  Measured measured = summarize(recorded_.empty() ? device_ : recorded_);
  measured.host_s = summarize(host_.empty() ? traced_host_ : host_).mean_s;
  return measured;
}

double ActionSamples::in_place_s() const { return summarize(device_).mean_s; }

void Samples::add(const ChainRun& run, bool split) {
  for (size_t i = 0; i < stages_.size(); ++i) {
    const MeasuredTimes& times = run.times[i];
    const MeasuredBytes& bytes = run.bytes[i];
    StageSamples& stage = stages_[i];
    stage.forward.add(times.forward, run.recorded, run.traced);
    if (split) {
      stage.backward_input.add(times.backward_input, run.recorded, run.traced);
      stage.backward_weight.add(times.backward_weight, run.recorded, run.traced);
      stage.bytes.after_input = bytes.after_input;
    } else {
      stage.backward.add(times.backward, run.recorded, run.traced);
    }
    stage.bytes.after_forward = bytes.after_forward;
    stage.bytes.transient_forward = bytes.transient_forward;
    stage.bytes.transient_backward =
        std::max(stage.bytes.transient_backward, bytes.transient_backward);
  }
}

std::vector<StageCost> Samples::costs() const {
  std::vector<StageCost> costs;
  for (const StageSamples& stage : stages_) {
    costs.push_back({.times = {.forward = stage.forward.measured(),
                               .backward = stage.backward.measured(),
                               .backward_input = stage.backward_input.measured(),
                               .backward_weight = stage.backward_weight.measured()},
                     .bytes = stage.bytes,
                     .pass_s = stage.forward.in_place_s() + stage.backward.in_place_s()});
  }
  return costs;
}

}  // namespace penstock::profiler
