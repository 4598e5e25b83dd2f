#include "simulator/explain/idle.hpp"

#include <algorithm>
#include <functional>

#include "simulator/engine/compile.hpp"
#include "simulator/engine/engine.hpp"

namespace penstock {

namespace {

/// The times of a stage, those that idle time can come from.
constexpr double StageCosts::*stage_times[] = {
    &StageCosts::forward_s,         &StageCosts::backward_s,      &StageCosts::backward_input_s,
    &StageCosts::backward_weight_s, &StageCosts::first_forward_s, &StageCosts::first_backward_s,
    &StageCosts::optimizer_s};

constexpr double StageCosts::*host_times[] = {
    &StageCosts::forward_host_s, &StageCosts::backward_host_s, &StageCosts::backward_input_host_s,
    &StageCosts::backward_weight_host_s};

/// Each takes one thing away; false if there is none of it.
bool drop_reduces(Costs& costs, Network&) {
  bool any = false;
  for (StageCosts& stage : costs.stages) {
    any |= stage.reduce_s != 0 || stage.publish_s != 0 || !stage.sums.empty();
    stage.reduce_s = stage.publish_s = 0;
    stage.sums.clear();
  }
  return any;
}

bool free_transfers(Costs&, Network& network) {
  const Link& link = network.link();
  const bool free = network.uniform() && link.latency_s == 0 && link.bandwidth == 0 &&
                    link.propagation_s == 0 && link.sender_s_per_byte == 0 &&
                    link.receiver_s_per_byte == 0 && link.mode == SendMode::eager;
  network = {};
  return !free;
}

bool issue_at_once(Costs& costs, Network&) {
  bool any = false;
  for (StageCosts& stage : costs.stages) {
    for (double StageCosts::*const host : host_times) {
      any |= stage.*host != 0;
      stage.*host = 0;
    }
  }
  return any;
}

bool drop_recompute(Costs& costs, Network&) {
  bool any = false;
  for (StageCosts& stage : costs.stages) {
    any |= stage.recompute_s != 0;
    stage.backward_s -= stage.recompute_s;
    stage.backward_input_s -= stage.recompute_s;
    stage.recompute_s = 0;
  }
  return any;
}

bool equalise(Costs& costs, Network&) {
  bool any = false;
  for (double StageCosts::*const time : stage_times) {
    const double first_s = costs.stages.empty() ? 0 : costs.stages.front().*time;
    double sum_s = 0;
    bool equal = true;
    for (const StageCosts& stage : costs.stages) {
      sum_s += stage.*time;
      equal &= stage.*time == first_s;
    }
    if (equal) continue;
    any = true;
    const double mean_s = sum_s / static_cast<double>(costs.stages.size());
    for (StageCosts& stage : costs.stages) stage.*time = mean_s;
  }
  return any;
}

struct Change {
  bool (*apply)(Costs&, Network&);
  double IdleParts::*part;
};
constexpr Change changes[] = {{drop_reduces, &IdleParts::all_reduce_s},
                              {free_transfers, &IdleParts::transfers_s},
                              {issue_at_once, &IdleParts::launch_s},
                              {drop_recompute, &IdleParts::recompute_s},
                              {equalise, &IdleParts::imbalance_s}};

/// Per rank: the makespan without its compute.
std::vector<double> idle_s(const Program& program, const Costs& costs, const Network& network) {
  const EngineResult times = run_engine(compile(program, costs, network), network, false);
  double makespan_s = 0;
  for (const RankTimes& rank : times.ranks) makespan_s = std::max(makespan_s, rank.now_s);
  std::vector<double> result;
  for (const RankTimes& rank : times.ranks) result.push_back(makespan_s - rank.busy_s);
  return result;
}

}  // namespace

std::vector<IdleParts> idle_parts(const Program& program, const Costs& costs,
                                  const Network& network) {
  Costs changed = costs;
  Network changed_network = network;
  std::vector<IdleParts> parts(program.ranks.size());
  std::vector<double> before_s = idle_s(program, changed, changed_network);
  for (const Change& change : changes) {
    if (!change.apply(changed, changed_network)) continue;
    const std::vector<double> after_s = idle_s(program, changed, changed_network);
    for (size_t r = 0; r < parts.size(); ++r) parts[r].*change.part = before_s[r] - after_s[r];
    before_s = after_s;
  }
  for (size_t r = 0; r < parts.size(); ++r) parts[r].ramp_s = before_s[r];
  return parts;
}

namespace {

/// Takes up to `debt_s` off a part; what is left of the debt.
double paid_from(double& part_s, double debt_s) {
  const double paid_s = std::min(part_s, debt_s);
  part_s -= paid_s;
  return debt_s - paid_s;
}

/// The same sum without parts below 0.
void fold_negative(IdleParts& parts) {
  std::vector<double*> others;
  for (const Change& change : changes) others.push_back(&(parts.*change.part));
  double debt_s = 0;
  for (double* part : others) {
    debt_s += std::max(0.0, -*part);
    *part = std::max(0.0, *part);
  }
  debt_s = paid_from(parts.ramp_s, debt_s);
  std::ranges::stable_sort(others, std::greater{}, [](const double* part) { return *part; });
  for (double* part : others) debt_s = paid_from(*part, debt_s);
}

}  // namespace

IdleParts sum(const std::vector<IdleParts>& ranks) {
  IdleParts total;
  for (const IdleParts& rank : ranks) {
    for (const Change& change : changes) total.*change.part += rank.*change.part;
    total.ramp_s += rank.ramp_s;
  }
  fold_negative(total);
  return total;
}

}  // namespace penstock
