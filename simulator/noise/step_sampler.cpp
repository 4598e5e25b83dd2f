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
      group_parts_(noise.group_parts),
      common_(noise.common),
      own_(noise.own),
      size_error_(noise.size_error),
      link_error_(noise.link_error),
      size_(static_cast<uint64_t>(noise.microbatch)),
      noise_(lowered.rank_of_stage.size()),
      base_(compile(lowered, costs, network)),
      now_(base_) {
  if (noise.stages.size() < noise_.size())
    throw std::invalid_argument("StepSampler: a stage of the program has no noise");
  add_units(noise);
  vary(lowered);
}

void StepSampler::add_units(const StepNoise& noise) {
  for (size_t stage = 0; stage < noise_.size(); ++stage) {
    for (size_t action = 0; action < noise_[stage].size(); ++action) {
      const ActionNoise& from = noise.stages[stage][action];
      Noise& to = noise_[stage][action];
      to.sent_s = from.sent_s;
      to.phases.resize(1);
      for (const NoisePart& part : from.parts) {
        const auto phase = static_cast<uint64_t>(part.phase);
        if (phase >= to.phases.size()) to.phases.resize(phase + 1);
        const auto mean = static_cast<uint64_t>(part.unit * 4 + part.action);
        to.phases[phase].units.push_back(
            {mean, (mean * 4 + action) + (phase << 32), part.seconds, part.error, part.jitter});
        to.phases[phase].seconds += part.seconds;
      }
    }
  }
}

void StepSampler::vary(const Program& lowered) {
  for (int rank = 0; rank < base_.rank_count(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    for (int32_t task = base_.rank_begin[r]; task < base_.rank_begin[r + 1]; ++task) {
      const Task& compiled = base_.tasks[static_cast<size_t>(task)];
      if (!computes(compiled.op)) continue;
      Varied varied{task, rank, {}, compiled.duration_s};
      for_each_part(action_of_task(lowered, base_, task), [&](const Action& action) {
        const int index = index_of(action.kind);
        if (index < 0) return;
        const Noise& noise = noise_[static_cast<size_t>(action.stage)][static_cast<size_t>(index)];
        varied.actions.emplace_back(static_cast<uint64_t>(action.microbatch), &noise);
        varied.other_s -= noise.sent_s;
        for (const Phase& phase : noise.phases) varied.other_s -= phase.seconds;
      });
      if (varied.actions.empty()) varied.actions.emplace_back(0, &nothing_);
      varied_.push_back(std::move(varied));
    }
  }
}

double StepSampler::run() const {
  double step_s = 0;
  for (const RankTimes& rank : run_engine(now_, network_, false).ranks)
    step_s = std::max(step_s, rank.now_s);
  return step_s;
}

/// The group goes on from a phase when its slowest part has come.
double StepSampler::duration_s(const Varied& varied, std::span<const Luck> parts) const {
  double seconds = base_.tasks[static_cast<size_t>(varied.task)].duration_s;
  double other_s = varied.other_s;
  for (const auto& [microbatch, noise] : varied.actions) {
    for (const Phase& phase : noise->phases) {
      const double mean_s = phase.seconds + std::exchange(other_s, 0);
      double slowest_s = 0;
      for (const Luck& luck : parts) {
        const uint64_t key = mixed(luck.jitter, microbatch);
        double own_s = mean_s;
        for (const Unit& unit : phase.units)
          own_s += unit.seconds * (drawn(unit.jitter, mixed(key, unit.use)) - 1);
        slowest_s = std::max(slowest_s, own_s * luck.factor);
      }
      seconds += slowest_s - mean_s;
    }
  }
  return std::max(0.0, seconds);
}

double StepSampler::drawn_s(uint64_t seed, int64_t number) {
  const double common = drawn(common_, mixed(key_of(seed, number, Purpose::common), 0));
  const uint64_t own = key_of(seed, number, Purpose::own);
  const uint64_t jitter = key_of(seed, number, Purpose::jitter);
  const int64_t ranks = base_.rank_count() * group_parts_;
  double step_s = 0;
  for (int64_t replica = 0; replica < replicas_; ++replica) {
    std::vector<Luck> all;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const auto group = static_cast<uint64_t>(replica * group_parts_ + rank % group_parts_);
      const uint64_t of_rank =
          mixed(mixed(own, static_cast<uint64_t>(replica)), static_cast<uint64_t>(rank));
      all.push_back({common * drawn(own_, of_rank), mixed(jitter, group)});
    }
    for (const Varied& varied : varied_) {
      const auto parts = static_cast<size_t>(group_parts_);
      now_.tasks[static_cast<size_t>(varied.task)].duration_s = duration_s(
          varied, std::span(all).subspan(static_cast<size_t>(varied.rank) * parts, parts));
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
    double seconds = base_.tasks[static_cast<size_t>(varied.task)].duration_s, sent_s = 0;
    for (const auto& [microbatch, noise] : varied.actions) {
      sent_s += noise->sent_s;
      for (const Phase& phase : noise->phases) {
        for (const Unit& unit : phase.units)
          seconds += unit.seconds * (factor(mixed(means, unit.mean), unit.error) - 1);
      }
    }
    seconds += (seconds - sent_s) * (all - 1);
    now_.tasks[static_cast<size_t>(varied.task)].duration_s = std::max(0.0, seconds);
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
