// Random programs that can finish, with random costs and links of every send mode. Times are
// multiples of 1/64 s, as in helpers.hpp.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulator/helpers.hpp"

namespace penstock::testing {

/// Random stages on random ranks, random flows with skips, and a random order that can run.
class Maker {
 public:
  explicit Maker(unsigned seed) : random_(seed) {}

  int upto(int most) { return std::uniform_int_distribution<int>(0, most)(random_); }
  double time() { return upto(128) / 64.0; }

  Program compute(int ranks, int microbatches, const std::vector<Flow>& flows, bool split,
                  std::vector<int> rank_of_stage) {
    Program program{.rank_of_stage = std::move(rank_of_stage), .microbatches = microbatches};
    program.ranks.resize(static_cast<size_t>(ranks));
    std::vector<Action> open = all_actions(program.stage_count(), microbatches, split);
    std::vector<Action> done;
    while (!open.empty()) {
      const auto at = static_cast<size_t>(upto(static_cast<int>(open.size()) - 1));
      if (!ready(open[at], flows, done)) continue;
      done.push_back(open[at]);
      const int rank = program.rank_of_stage[static_cast<size_t>(open[at].stage)];
      program.ranks[static_cast<size_t>(rank)].push_back(open[at]);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return program;
  }

  std::vector<int> placement(int stages, int ranks) {
    std::vector<int> result;
    result.reserve(static_cast<size_t>(stages));
    for (int s = 0; s < stages; ++s) result.push_back(s < ranks ? s : upto(ranks - 1));
    std::shuffle(result.begin(), result.end(), random_);
    return result;
  }

  std::vector<Flow> flows(int stages) {
    std::vector<Flow> result = chain_flows(stages);
    for (int from = 0; from < stages; ++from) {
      for (int to = from + 2; to < stages; ++to) {
        if (upto(3) == 0) result.push_back({from, to, upto(1) == 0});
      }
    }
    return result;
  }

  /// With hosts that run ahead of their devices in one case of three.
  Costs costs(int stages, const std::vector<Flow>& flows) {
    Costs result;
    for (int s = 0; s < stages; ++s) {
      result.stages.push_back({.forward_s = time(),
                               .backward_s = time(),
                               .backward_input_s = time(),
                               .backward_weight_s = time(),
                               .first_forward_s = time()});
    }
    for (const Flow& flow : flows) result.flows.push_back({flow.from, flow.to, upto(64), upto(64)});
    if (upto(2) == 0) add_hosts(result);
    return result;
  }

  void add_hosts(Costs& costs) {
    for (StageCosts& stage : costs.stages) {
      stage.forward_host_s = time();
      stage.backward_host_s = time();
      stage.backward_input_host_s = time();
      stage.backward_weight_host_s = time();
    }
  }

  Link link() {
    return {.latency_s = time() / 4,
            .bandwidth = upto(3) == 0 ? 0.0 : 64.0,
            .propagation_s = upto(1) == 0 ? 0.0 : time(),
            .mode = static_cast<SendMode>(upto(2)),
            .receive_depth = upto(3)};
  }

 private:
  static std::vector<Action> all_actions(int stages, int microbatches, bool split) {
    std::vector<Action> all;
    for (int s = 0; s < stages; ++s) {
      for (int m = 0; m < microbatches; ++m) {
        all.push_back({s, Kind::forward, m});
        all.push_back({s, split ? Kind::backward_input : Kind::backward, m});
        if (split) all.push_back({s, Kind::backward_weight, m});
      }
    }
    return all;
  }

  static bool ready(const Action& action, const std::vector<Flow>& flows,
                    const std::vector<Action>& done) {
    const auto has = [&](int stage, Kind kind) {
      return std::ranges::find(done, Action{stage, kind, action.microbatch}) != done.end();
    };
    if (action.kind == Kind::backward_weight) return has(action.stage, Kind::backward_input);
    const bool forward = action.kind == Kind::forward;
    if (!forward && !has(action.stage, Kind::forward)) return false;
    return std::ranges::all_of(flows, [&](const Flow& flow) {
      if (forward) return flow.to != action.stage || has(flow.from, Kind::forward);
      return flow.from != action.stage || !flow.gradient || has(flow.to, action.kind);
    });
  }

  std::mt19937 random_;
};

struct Case {
  Program program;
  Costs costs;
  Link link;
};

inline Case make_case(unsigned seed) {
  Maker maker(seed);
  const int ranks = 1 + maker.upto(3), stages = ranks + maker.upto(3);
  const std::vector<Flow> flows = maker.flows(stages);
  const Program compute = maker.compute(ranks, 1 + maker.upto(4), flows, maker.upto(1) == 0,
                                        maker.placement(stages, ranks));
  return {lower(compute, flows), maker.costs(stages, flows), maker.link()};
}

inline std::string describe(const Case& tested, unsigned seed) {
  return "seed " + std::to_string(seed) + ", mode " +
         std::to_string(static_cast<int>(tested.link.mode)) + ", depth " +
         std::to_string(tested.link.receive_depth) + "\n" + to_csv(tested.program);
}

}  // namespace penstock::testing
