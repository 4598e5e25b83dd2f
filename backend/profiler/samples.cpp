#include "backend/profiler/samples.hpp"

#include <algorithm>

#include "backend/profiler/statistics.hpp"

namespace penstock::profiler {

void Samples::add(const ChainRun& run, bool split) {
  for (size_t i = 0; i < stages_.size(); ++i) {
    const StageTimes& times = run.times[i];
    const StageBytes& bytes = run.bytes[i];
    Stage& stage = stages_[i];
    stage.forward.push_back(times.forward);
    if (split) {
      stage.backward_input.push_back(times.backward_input);
      stage.backward_weight.push_back(times.backward_weight);
      stage.bytes.after_input = bytes.after_input;
    } else {
      stage.backward.push_back(times.backward);
    }
    stage.bytes.after_forward = bytes.after_forward;
    stage.bytes.transient_forward = bytes.transient_forward;
    stage.bytes.transient_backward =
        std::max(stage.bytes.transient_backward, bytes.transient_backward);
  }
}

std::vector<StageCost> Samples::costs() const {
  std::vector<StageCost> costs;
  for (const Stage& stage : stages_) {
    costs.push_back({.times = {.forward = summarize(stage.forward),
                               .backward = summarize(stage.backward),
                               .backward_input = summarize(stage.backward_input),
                               .backward_weight = summarize(stage.backward_weight)},
                     .bytes = stage.bytes});
  }
  return costs;
}

}  // namespace penstock::profiler
