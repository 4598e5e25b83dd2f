#include "tests/simulator/settings.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "base/error.hpp"

namespace penstock::testing {

namespace {

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  int integer(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  double real(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  /// Every power of ten is as likely as any other.
  double logarithmic(double least, double most) {
    return std::exp(real(std::log(least), std::log(most)));
  }

 private:
  std::mt19937 random_;
};

/// A shape that the schedule allows: drawn until one is.
Program draw_program(const Schedule& schedule, Draw& draw) {
  for (;;) {
    const int ranks = draw.integer(2, 12);
    const int stages = schedule.stages_per_rank > 0 ? schedule.stages_per_rank : draw.integer(1, 4);
    const int microbatches = draw.integer(1, 48);
    try {
      const Program compute = schedule.generate({ranks, stages, microbatches});
      return lower(compute, chain_flows(compute.stage_count()));
    } catch (const InputError&) {
      continue;
    }
  }
}

StageCosts draw_stage(const StageCosts& around, double spread, Draw& draw) {
  const auto near = [&](double value) { return value * draw.real(1 - spread, 1 + spread); };
  StageCosts costs = around;
  costs.forward_s = near(around.forward_s);
  costs.backward_s = near(around.backward_s);
  costs.backward_input_s = near(around.backward_input_s);
  costs.backward_weight_s = near(around.backward_weight_s);
  return costs;
}

Setting make_setting(const Schedule& schedule, bool equal, Draw& draw) {
  Setting setting{.program = draw_program(schedule, draw)};
  const double forward_s = draw.logarithmic(1e-3, 20e-3);
  const double input_s = forward_s * draw.real(0.5, 2), weight_s = forward_s * draw.real(0.2, 1.5);
  const StageCosts around{.forward_s = forward_s,
                          .backward_s = input_s + weight_s,
                          .backward_input_s = input_s,
                          .backward_weight_s = weight_s};
  setting.link = {.latency_s = draw.logarithmic(1e-6, forward_s),
                  .bandwidth = draw.logarithmic(1e8, 1e11),
                  .propagation_s = equal ? 0 : draw.logarithmic(1e-6, forward_s)};
  const double transfer_s = forward_s * draw.logarithmic(0.01, 10);
  const double spread = equal ? 0 : 0.5;
  const int stages = setting.program.stage_count();
  for (int s = 0; s < stages; ++s) {
    setting.costs.stages.push_back(draw_stage(around, spread, draw));
  }
  const auto bytes = [&] {
    return static_cast<int64_t>(transfer_s * setting.link.bandwidth *
                                draw.real(1 - spread, 1 + spread));
  };
  for (int s = 0; s + 1 < stages; ++s) setting.costs.flows.push_back({s, s + 1, bytes(), bytes()});
  char text[200];
  std::snprintf(text, sizeof text, "%.*s P=%d stages=%d M=%d F=%g s transfer=%g s latency=%g s",
                static_cast<int>(schedule.name.size()), schedule.name.data(),
                setting.program.rank_count(), stages, setting.program.microbatches, forward_s,
                transfer_s, setting.link.latency_s);
  setting.description = text;
  return setting;
}

}  // namespace

std::vector<Setting> make_settings(const Schedule& schedule, int count, unsigned seed) {
  Draw draw(seed);
  std::vector<Setting> settings;
  settings.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) settings.push_back(make_setting(schedule, i % 2 == 0, draw));
  return settings;
}

}  // namespace penstock::testing
