#include "simulator/noise/step_sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/quantile.hpp"
#include "simulator/engine/engine.hpp"
#include "simulator/noise/draw.hpp"

namespace penstock {

namespace {

/// Each purpose has draws of its own.
enum class Purpose : uint8_t { common, own, jitter, unit_mean, size_mean, link };

uint64_t key_of(uint64_t seed, int64_t number, Purpose purpose) {
  return mixed(mixed(mixed(0, seed), static_cast<uint64_t>(number)),
               static_cast<uint64_t>(purpose));
}

/// Index of an action in StageNoise; -1: it has no parts.
int index_of(Kind kind) {
  switch (kind) {
    case Kind::forward: return 0;
    case Kind::backward: return 1;
    case Kind::backward_input: return 2;
    case Kind::backward_weight: return 3;
    default: return -1;
  }
}

bool computes(Task::Op op) { return op == Task::Op::compute || op == Task::Op::agree; }

}  // namespace

StepSampler::StepSampler(const Program& lowered, const Costs& costs, const Network& network,
                         const StepNoise& noise, int64_t replicas)
    : network_(network),
      replicas_(replicas),
      common_(noise.common),
      own_(noise.own),
      size_error_(noise.size_error),
      link_error_(noise.link_error),
      size_(static_cast<uint64_t>(noise.microbatch)),
      parts_(lowered.rank_of_stage.size()),
      base_(compile(lowered, costs, network)),
      now_(base_) {
  if (noise.stages.size() < parts_.size())
    throw std::invalid_argument("StepSampler: a stage of the program has no noise");
  add_parts(noise);
  vary(lowered);
}

void StepSampler::add_parts(const StepNoise& noise) {
  for (size_t stage = 0; stage < parts_.size(); ++stage) {
    for (size_t action = 0; action < parts_[stage].size(); ++action) {
      for (const NoisePart& part : noise.stages[stage][action]) {
        const auto mean = static_cast<uint64_t>(part.unit * 4 + part.action);
        parts_[stage][action].push_back(
            {mean, mean * 4 + action, part.seconds, part.error, part.jitter});
      }
    }
  }
}

void StepSampler::vary(const Program& lowered) {
  static const std::vector<Part> none;
  for (int rank = 0; rank < base_.rank_count(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    for (int32_t task = base_.rank_begin[r]; task < base_.rank_begin[r + 1]; ++task) {
      if (!computes(base_.tasks[static_cast<size_t>(task)].op)) continue;
      Varied varied{task, rank, {0, 0}, {&none, &none}};
      size_t count = 0;
      for_each_part(action_of_task(lowered, base_, task), [&](const Action& action) {
        const int index = index_of(action.kind);
        if (index < 0) return;
        varied.microbatch[count] = static_cast<uint64_t>(action.microbatch);
        varied.parts[count++] =
            &parts_[static_cast<size_t>(action.stage)][static_cast<size_t>(index)];
      });
      varied_.push_back(varied);
    }
  }
}

double StepSampler::run() const {
  double step_s = 0;
  for (const RankTimes& rank : run_engine(now_, network_, false).ranks)
    step_s = std::max(step_s, rank.now_s);
  return step_s;
}

double StepSampler::drawn_s(uint64_t seed, int64_t number) {
  const double common = drawn(common_, mixed(key_of(seed, number, Purpose::common), 0));
  double step_s = 0;
  for (int64_t replica = 0; replica < replicas_; ++replica) {
    const uint64_t own = mixed(key_of(seed, number, Purpose::own), static_cast<uint64_t>(replica));
    const uint64_t jitter =
        mixed(key_of(seed, number, Purpose::jitter), static_cast<uint64_t>(replica));
    for (const Varied& varied : varied_) {
      double seconds = base_.tasks[static_cast<size_t>(varied.task)].duration_s;
      for (size_t part = 0; part < 2; ++part) {
        const uint64_t microbatch = mixed(jitter, varied.microbatch[part]);
        for (const Part& one : *varied.parts[part])
          seconds += one.seconds * (drawn(one.jitter, mixed(microbatch, one.use)) - 1);
      }
      const double factor = common * drawn(own_, mixed(own, static_cast<uint64_t>(varied.rank)));
      now_.tasks[static_cast<size_t>(varied.task)].duration_s = std::max(0.0, seconds) * factor;
    }
    step_s = std::max(step_s, run());
  }
  return step_s;
}

double StepSampler::shifted_s(uint64_t seed, int64_t number) {
  const auto factor = [](uint64_t key, double error) {
    return std::max(0.0, 1 + error * drawn_normal(key));
  };
  const uint64_t means = mixed(key_of(seed, number, Purpose::unit_mean), size_);
  const double all = factor(mixed(key_of(seed, number, Purpose::size_mean), size_), size_error_);
  for (const Varied& varied : varied_) {
    double seconds = base_.tasks[static_cast<size_t>(varied.task)].duration_s;
    for (const std::vector<Part>* parts : varied.parts) {
      for (const Part& one : *parts)
        seconds += one.seconds * (factor(mixed(means, one.mean), one.error) - 1);
    }
    now_.tasks[static_cast<size_t>(varied.task)].duration_s = std::max(0.0, seconds) * all;
  }
  const double link = factor(key_of(seed, number, Purpose::link), link_error_);
  for (Message& message : now_.messages) message.transfer_s *= link;
  const double step_s = run();
  now_.messages = base_.messages;
  return step_s;
}

SampledSteps sampled_steps(StepSampler& sampler, uint64_t seed, int64_t count) {
  std::vector<double> steps_s;
  for (int64_t number = 0; number < count; ++number)
    steps_s.push_back(sampler.drawn_s(seed, number));
  const double mean_s =
      std::accumulate(steps_s.begin(), steps_s.end(), 0.0) / static_cast<double>(count);
  std::ranges::sort(steps_s);
  return {count,
          seed,
          mean_s,
          quantile(steps_s, 0.5),
          quantile(steps_s, 0.05),
          quantile(steps_s, 0.95)};
}

}  // namespace penstock
