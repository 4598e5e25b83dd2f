// What holds for every program, whatever its times: checked on generated settings of every
// schedule.
//
// All comparisons are exact. An engine's time is made of sums and maxima, and both are monotone in
// floating point too: what bounds the numbers bounds their rounded sums, as long as both sides add
// in the same order. Scaling by a power of two rounds nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pipeline/program/timeline.hpp"
#include "simulator/engine/simulate.hpp"
#include "tests/simulator/settings.hpp"

namespace penstock {
namespace {

using testing::Setting;

/// The longest path through a program's compute: an action follows the one before it on its rank,
/// and the actions that make its inputs, on another rank after a transfer that never waits.
class LongestPath {
 public:
  LongestPath(const Setting& setting, const Link& link) : setting_(setting), link_(link) {
    for (const auto& rank : setting.program.ranks) {
      actions_.emplace_back();
      for (const Action& action : rank) {
        if (!is_compute(action.kind)) continue;
        const Place place{actions_.size() - 1, actions_.back().size()};
        for_each_part(action, [&](const Action& part) {
          if (part.kind != Kind::backward_weight) maker_[key(part)] = place;
        });
        actions_.back().push_back(action);
      }
    }
  }

  double length_s() {
    double longest_s = 0;
    for (size_t rank = 0; rank < actions_.size(); ++rank) {
      for (size_t i = 0; i < actions_[rank].size(); ++i) {
        longest_s = std::max(longest_s, end_s({rank, i}));
      }
    }
    return longest_s;
  }

 private:
  using Place = std::pair<size_t, size_t>;  // rank, index among its computes
  using Key = std::tuple<int, int, bool>;   // stage, microbatch, forward
  static Key key(const Action& action) {
    return {action.stage, action.microbatch, action.kind == Kind::forward};
  }

  double end_s(const Place& place) {
    const auto known = end_s_.find(place);
    if (known != end_s_.end()) return known->second;
    const auto rank = place.first;
    const auto index = place.second;
    const Action& action = actions_[rank][index];
    double start_s = index > 0 ? end_s({rank, index - 1}) : 0;
    for_each_part(action,
                  [&](const Action& part) { start_s = std::max(start_s, input_s(part, rank)); });
    return end_s_[place] = start_s + setting_.costs.duration_s(action);
  }

  /// When the action's input has come from the stage before it, or after it in the backward.
  double input_s(const Action& action, size_t rank) {
    if (action.kind == Kind::backward_weight) return 0;
    const bool forward = action.kind == Kind::forward;
    const auto maker = maker_.find({action.stage + (forward ? -1 : 1), action.microbatch, forward});
    if (maker == maker_.end() || maker->second.first == rank) return 0;
    const Action receive{action.stage, forward ? Kind::recv_forward : Kind::recv_backward,
                         action.microbatch};
    const double transfer_s = link_.transfer_s(setting_.costs.message_bytes(receive));
    return end_s(maker->second) + transfer_s + link_.propagation_s;
  }

  const Setting& setting_;
  const Link link_;
  std::vector<std::vector<Action>> actions_;
  std::map<Key, Place> maker_;
  std::map<Place, double> end_s_;
};

double busiest_rank_s(const Setting& setting) {
  double busiest_s = 0;
  for (const auto& rank : setting.program.ranks) {
    double sum_s = 0;
    for (const Action& action : rank) sum_s += setting.costs.duration_s(action);
    busiest_s = std::max(busiest_s, sum_s);
  }
  return busiest_s;
}

Simulation run(const Setting& setting, const Link& link, bool timeline = false) {
  return simulate(setting.program, setting.costs, link, {.timeline = timeline, .memory = timeline});
}

/// The setting's link in each way of sending.
std::array<Link, 4> links(const Setting& setting) {
  std::array<Link, 4> all;
  all.fill(setting.link);
  all[1].propagation_s = setting.costs.stages[0].forward_s / 3;
  all[2].mode = SendMode::posted;
  all[3].mode = SendMode::rendezvous;
  return all;
}

class Invariant : public ::testing::TestWithParam<Schedule> {
 protected:
  void for_each_setting(const std::function<void(const Setting&, const Link&)>& check) const {
    for (const Setting& setting : testing::make_settings(GetParam(), 16, 2026)) {
      for (const Link& link : links(setting)) {
        SCOPED_TRACE(setting.description + ", mode " + std::to_string(static_cast<int>(link.mode)));
        check(setting, link);
      }
    }
  }
};

TEST_P(Invariant, MakespanIsNeverBelowTheBusiestRank) {
  for_each_setting([](const Setting& setting, const Link& link) {
    EXPECT_GE(run(setting, link).makespan_s, busiest_rank_s(setting));
  });
}

TEST_P(Invariant, MakespanIsNeverBelowTheLongestPath) {
  for_each_setting([](const Setting& setting, const Link& link) {
    EXPECT_GE(run(setting, link).makespan_s, LongestPath(setting, link).length_s());
  });
}

// Where messages do not queue up, nothing but the path is left to wait for.
TEST_P(Invariant, MakespanIsTheLongestPathWhereTransfersOverlap) {
  for_each_setting([](const Setting& setting, const Link& link) {
    const Link overlapping{.propagation_s = link.latency_s};
    EXPECT_EQ(run(setting, overlapping).makespan_s, LongestPath(setting, overlapping).length_s());
  });
}

TEST_P(Invariant, MoreBandwidthNeverHurtsInAFixedOrder) {
  for_each_setting([](const Setting& setting, const Link& link) {
    double before_s = run(setting, link).makespan_s;
    Link faster = link;
    for (const double factor : {1.001, 1.7, 30.0, 1e6}) {
      faster.bandwidth *= factor;
      const double now_s = run(setting, faster).makespan_s;
      EXPECT_LE(now_s, before_s) << faster.bandwidth << " B/s";
      before_s = now_s;
    }
  });
}

Setting scaled(Setting setting, double factor) {
  for (StageCosts& stage : setting.costs.stages) {
    for (double StageCosts::*time :
         {&StageCosts::forward_s, &StageCosts::backward_s, &StageCosts::backward_input_s,
          &StageCosts::backward_weight_s}) {
      stage.*time *= factor;
    }
  }
  return setting;
}

TEST_P(Invariant, ScalingAllTimesScalesTheResult) {
  for_each_setting([](const Setting& setting, const Link& link) {
    const Simulation once = run(setting, link);
    for (const double factor : {0.125, 1024.0}) {
      Link longer = link;
      longer.latency_s *= factor;
      longer.propagation_s *= factor;
      longer.bandwidth /= factor;
      const Simulation result = run(scaled(setting, factor), longer);
      EXPECT_EQ(result.makespan_s, factor * once.makespan_s);
      EXPECT_EQ(result.bubble, once.bubble);
    }
  });
}

/// Rank r becomes the last but r.
Setting mirrored(Setting setting) {
  std::reverse(setting.program.ranks.begin(), setting.program.ranks.end());
  for (int& rank : setting.program.rank_of_stage) rank = setting.program.rank_count() - 1 - rank;
  return setting;
}

TEST_P(Invariant, TheNumberingOfRanksDoesNotMatter) {
  for_each_setting([](const Setting& setting, const Link& link) {
    std::vector<double> ends_s = run(setting, link).rank_end_s;
    std::reverse(ends_s.begin(), ends_s.end());
    EXPECT_EQ(run(mirrored(setting), link).rank_end_s, ends_s);
  });
}

TEST_P(Invariant, TheSameInputGivesTheSameBytes) {
  for_each_setting([](const Setting& setting, const Link& link) {
    const auto trace = [&] {
      const Simulation result = run(setting, link, true);
      return to_chrome_trace({"again", result.timeline, result.memory});
    };
    EXPECT_EQ(trace(), trace());
  });
}

INSTANTIATE_TEST_SUITE_P(Schedules, Invariant, ::testing::ValuesIn(schedules()),
                         [](const ::testing::TestParamInfo<Schedule>& schedule) {
                           std::string name(schedule.param.name);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace penstock
