#include "backend/profiler/samples.hpp"

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
  if (!split) rounds_.push_back({run.times, {}, run.recorded});
  if (split && !rounds_.empty()) {
    rounds_.back().split = run.times;
    rounds_.back().recorded &= run.recorded;
  }
  for (size_t i = 0; i < stages_.size(); ++i) {
    const MeasuredTimes& times = run.times[i];
    StageSamples& stage = stages_[i];
    stage.forward.add(times.forward, run.recorded, run.traced);
    if (split) {
      stage.backward_input.add(times.backward_input, run.recorded, run.traced);
      stage.backward_weight.add(times.backward_weight, run.recorded, run.traced);
    } else {
      stage.backward.add(times.backward, run.recorded, run.traced);
    }
  }
}

std::vector<StageCost> Samples::costs() const {
  std::vector<StageCost> costs;
  for (const StageSamples& stage : stages_) {
    costs.push_back({.times = {.forward = stage.forward.measured(),
                               .backward = stage.backward.measured(),
                               .backward_input = stage.backward_input.measured(),
                               .backward_weight = stage.backward_weight.measured()},
                     .pass_s = stage.forward.in_place_s() + stage.backward.in_place_s()});
  }
  return costs;
}

ChainVariation Samples::variation() const {
  const bool recorded = std::ranges::any_of(rounds_, &Round::recorded);
  constexpr size_t series = 5;  // of a stage: F and B, F, I and W
  std::vector<std::vector<double>> seconds(series * stages_.size());
  for (const Round& round : rounds_) {
    if (round.split.empty() || round.recorded != recorded) continue;
    for (size_t i = 0; i < stages_.size(); ++i) {
      const MeasuredTimes &whole = round.whole[i], &split = round.split[i];
      size_t at = series * i;
      for (const Seconds& one : {whole.forward, whole.backward, split.forward, split.backward_input,
                                 split.backward_weight})
        seconds[at++].push_back(one.device);
    }
  }
  if (seconds.empty() || seconds.front().size() < min_rounds) return {};
  Variation found = separate(seconds);
  ChainVariation result{.rounds = std::move(found.rounds), .stages = {}};
  for (size_t i = 0; i < stages_.size(); ++i) {
    const Factors* of = &found.jitter[series * i];
    Factors forward = of[0];
    forward.insert(forward.end(), of[2].begin(), of[2].end());
    result.stages.push_back({equal_shares(std::move(forward)), equal_shares(of[1]),
                             equal_shares(of[3]), equal_shares(of[4])});
  }
  return result;
}

}  // namespace penstock::profiler
