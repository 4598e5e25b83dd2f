#include "chains.hpp"

#include <numeric>
#include <random>

#include "pipeline/lowering.hpp"
#include "pipeline/schedule.hpp"
#include "planner/launch_space.hpp"

namespace penstock::test {

namespace {

/// Integers below `bound`, the same on every platform.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(bound));
  }
  /// Whole nanoseconds around a millisecond, over a factor of about 100.
  double seconds() { return static_cast<double>(10'000 + below(10'000) * (1 + below(100))) * 1e-9; }

 private:
  std::mt19937_64 engine_;
};

void add_extras(Chain& chain, Dice& dice) {
  ChainCosts& costs = chain.costs;
  for (int unit = 0; unit < costs.units(); ++unit) {
    costs.first_forward_s.push_back(0.2 * costs.forward_s[unit] *
                                    static_cast<double>(dice.below(4) - 1));
    const double share =
        0.1 * static_cast<double>(dice.below(5)) - 0.2;  // also less: it does not accumulate
    costs.first_backward_s.push_back(share * costs.backward_s[unit]);
    costs.optimizer_s.push_back(0.5 * dice.seconds());
  }
  costs.action_s = 2e-5;
  costs.first_action_s = 5e-6 * static_cast<double>(dice.below(3) - 1);
  chain.link.propagation_s = 1e-5 * static_cast<double>(dice.below(10));
  chain.link.sender_s_per_byte = 0.1e-9 * static_cast<double>(dice.below(4));
  chain.link.receiver_s_per_byte = 0.1e-9 * static_cast<double>(dice.below(4));
  chain.link.mode = static_cast<SendMode>(dice.below(2));  // eager or posted
  costs.propagation_s = chain.link.propagation_s;
}

/// The link moves a byte per nanosecond, so bytes are nanoseconds.
void add_cuts(Chain& chain, Dice& dice, const ChainKind& kind) {
  ChainCosts& costs = chain.costs;
  for (int cut = 1; cut < costs.units(); ++cut) {
    const auto bytes = [&] {
      if (kind.coarse) return 1'000'000 * dice.below(3);
      return static_cast<int64_t>(kind.transfer_scale * 1e9 * dice.seconds());
    };
    chain.forward_bytes.push_back(bytes());
    chain.backward_bytes.push_back(bytes());
    const bool forward = !kind.breaks || dice.below(4) > 0;
    const bool backward = forward && (!kind.breaks || dice.below(4) > 0);
    chain.forward_linked.push_back(forward);
    chain.backward_linked.push_back(backward);
    costs.linked.push_back(forward && backward);
    const int64_t down = chain.forward_bytes.back(), up = chain.backward_bytes.back();
    costs.cut_forward_s.push_back(chain.link.transfer_s(down) + chain.link.propagation_s);
    costs.cut_backward_s.push_back(chain.link.transfer_s(up) + chain.link.propagation_s);
    const double send = chain.link.sender_s_per_byte, receive = chain.link.receiver_s_per_byte;
    const CutCompute compute{static_cast<double>(down) * send, static_cast<double>(up) * receive,
                             static_cast<double>(down) * receive, static_cast<double>(up) * send};
    costs.cut_compute.push_back(costs.linked.back() ? compute : CutCompute{});
  }
}

/// From a host that is never behind to one that takes a few times as long as its device.
void add_hosts(Chain& chain, Dice& dice) {
  const auto host_s = [&](double device_s) {
    return device_s * 0.25 * static_cast<double>(dice.below(9));
  };
  for (int unit = 0; unit < chain.costs.units(); ++unit) {
    chain.forward_host_s.push_back(host_s(chain.costs.forward_s[unit]));
    chain.backward_host_s.push_back(host_s(chain.costs.backward_s[unit]));
    chain.input_host_s.push_back(host_s(chain.input_s[unit]));
    chain.weight_host_s.push_back(host_s(chain.weight_s[unit]));
  }
}

std::vector<int> ends_of(const std::vector<int>& begins, int units) {
  std::vector<int> ends(begins.begin() + 1, begins.end());
  ends.push_back(units);
  return ends;
}

}  // namespace

Chain random_chain(uint64_t seed, const ChainKind& kind) {
  Dice dice(seed);
  Chain chain;
  chain.link.bandwidth = 1e9;
  if (kind.coarse) chain.link.mode = SendMode::posted;
  const double equal_s = dice.seconds();
  const auto seconds = [&] {
    if (kind.coarse) return 1e-3 * static_cast<double>(1 + dice.below(2));
    return kind.equal ? equal_s : dice.seconds();
  };
  for (int unit = 0; unit < kind.units; ++unit) {
    chain.costs.forward_s.push_back(seconds());
    chain.costs.backward_s.push_back(2 * seconds());
    const bool varies = !kind.equal && !kind.coarse;
    chain.fixed_bytes.push_back(kind.coarse ? 0 : 1000 * (varies ? 1 + dice.below(20) : 1));
    chain.saved_bytes.push_back(kind.coarse ? 0 : 100 * (varies ? 1 + dice.below(50) : 1));
  }
  if (kind.extras) add_extras(chain, dice);
  add_cuts(chain, dice, kind);
  for (const double backward_s : chain.costs.backward_s) {
    const double share = kind.coarse ? 0.5 : 0.3 + 0.05 * static_cast<double>(dice.below(8));
    const double both = kind.coarse ? 1 : 0.9 + 0.05 * static_cast<double>(dice.below(6));
    chain.input_s.push_back(share * backward_s);
    chain.weight_s.push_back((both - share) * backward_s);
  }
  if (kind.hosts) add_hosts(chain, dice);
  return chain;
}

std::vector<std::vector<int>> all_splits(int units, int ranks) {
  std::vector<std::vector<int>> splits;
  std::vector<int> begins(static_cast<size_t>(ranks));
  std::iota(begins.begin(), begins.end(), 0);
  while (true) {
    splits.push_back(begins);
    int rank = ranks - 1;
    while (rank > 0 && begins[rank] == units - ranks + rank) --rank;
    if (rank <= 0) return splits;
    ++begins[rank];
    for (int later = rank + 1; later < ranks; ++later) begins[later] = begins[later - 1] + 1;
  }
}

Costs stage_costs(const Chain& chain, const std::vector<int>& begins, bool split) {
  const ChainCosts& units = chain.costs;
  const std::vector<int> ends = ends_of(begins, units.units());
  Costs costs;
  for (size_t stage = 0; stage < begins.size(); ++stage) {
    StageCosts& out = costs.stages.emplace_back();
    out.forward_s = out.backward_s = units.action_s;
    out.backward_input_s = out.backward_weight_s = units.action_s;
    out.first_forward_s = out.first_backward_s = units.first_action_s;
    for (int unit = begins[stage]; unit < ends[stage]; ++unit) {
      out.forward_s += units.forward_s[unit];
      out.backward_s += units.backward_s[unit];
      out.backward_input_s += chain.input_s[unit];
      out.backward_weight_s += chain.weight_s[unit];
      if (!units.first_forward_s.empty()) out.first_forward_s += units.first_forward_s[unit];
      if (!units.first_backward_s.empty()) out.first_backward_s += units.first_backward_s[unit];
      if (!units.optimizer_s.empty()) out.optimizer_s += units.optimizer_s[unit];
      if (!chain.forward_host_s.empty()) {
        out.forward_host_s += chain.forward_host_s[unit];
        out.backward_host_s += chain.backward_host_s[unit];
        out.backward_input_host_s += chain.input_host_s[unit];
        out.backward_weight_host_s += chain.weight_host_s[unit];
      }
      out.fixed_bytes += chain.fixed_bytes[unit];
      out.saved_bytes += chain.saved_bytes[unit];
    }
    if (split) out.first_backward_s += units.first_action_s;  // the overhead of I and of W
    const double least_s = split ? std::min(out.backward_input_s, out.backward_s) : out.backward_s;
    out.first_backward_s = std::max(out.first_backward_s, -least_s);
    if (stage == 0) continue;
    const int cut = begins[stage] - 1;
    const int at = static_cast<int>(stage);
    costs.flows.push_back({at - 1, at, chain.forward_bytes[cut], chain.backward_bytes[cut]});
  }
  return costs;
}

Program compute_program(const std::string& schedule, int ranks, int microbatches,
                        int stages_per_rank) {
  return find_schedule(schedule, "test").generate({ranks, stages_per_rank, microbatches});
}

std::shared_ptr<const StageTable> bytes_of(const Chain& chain) {
  auto table = std::make_shared<StageTable>(chain.costs.units());
  for (int begin = 0; begin < table->units(); ++begin) {
    StageBytes bytes;
    for (int end = begin + 1; end <= table->units(); ++end) {
      bytes.always += chain.fixed_bytes[end - 1];
      bytes.per_microbatch += chain.saved_bytes[end - 1];
      table->at(begin, end) = bytes;
    }
  }
  return table;
}

ChainCosts split_costs(const Chain& chain, bool either) {
  ChainCosts costs = chain.costs;
  costs.weight_action_s = either ? 0 : costs.action_s;
  for (int unit = 0; unit < costs.units(); ++unit) {
    const double whole_s = costs.backward_s[unit];
    double input_s = chain.input_s[unit], weight_s = chain.weight_s[unit];
    if (either) {
      const double both_s = std::min(whole_s, input_s + weight_s);
      input_s = std::min(input_s, whole_s);
      weight_s = std::max(0.0, both_s - input_s);
    }
    costs.backward_s[unit] = input_s;
    costs.weight_s.push_back(weight_s);
    if (chain.forward_host_s.empty()) continue;
    const double parts_s = chain.input_host_s[unit] + chain.weight_host_s[unit];
    const double backward_host_s =
        either ? std::min(parts_s, chain.backward_host_s[unit]) : parts_s;
    costs.host_s.push_back(chain.forward_host_s[unit] + backward_host_s);
  }
  return costs;
}

namespace {

ChainCosts whole_costs(const Chain& chain) {
  ChainCosts costs = chain.costs;
  for (size_t unit = 0; unit < chain.forward_host_s.size(); ++unit)
    costs.host_s.push_back(chain.forward_host_s[unit] + chain.backward_host_s[unit]);
  return costs;
}

/// As the schedule runs its backwards.
ChainCosts costs_of(const Chain& chain, const std::string& schedule) {
  const bool split = find_schedule(schedule, "test").split_backward;
  return split ? split_costs(chain, schedule == "dualpipev") : whole_costs(chain);
}

}  // namespace

std::vector<Shape> shapes(int units, int microbatches) {
  std::vector<Shape> result;
  for (const Schedule& schedule : schedules()) {
    for (int ranks = 1; ranks <= 3; ++ranks) {
      for (int each = 1; ranks * each <= units; ++each) {
        if (schedule.stages_per_rank != 0 && schedule.stages_per_rank != each) continue;
        result.push_back({std::string(schedule.name), ranks, each, microbatches,
                          std::vector<double>(static_cast<size_t>(ranks), 1.0)});
      }
    }
  }
  return result;
}

Chain small_chain(uint64_t seed, bool breaks) {
  ChainKind kind;
  kind.units = 3 + static_cast<int>(seed % 4);
  kind.extras = seed % 3 != 0;
  kind.equal = seed % 5 == 0;
  kind.breaks = breaks;
  kind.hosts = seed % 4 == 3;
  kind.transfer_scale = seed % 2 == 0 ? 0.05 : 0.5;
  return random_chain(seed, kind);
}

RankSpeeds equal_ranks(int ranks) {
  return RankSpeeds(std::vector<double>(static_cast<size_t>(ranks), 1.0));
}

PlacedSpace placed_space(const Chain& chain, const std::string& schedule, const Program& compute,
                         const std::vector<double>& speeds, std::vector<int64_t> less) {
  const Placement placed = placement(compute);
  return {costs_of(chain, schedule), bytes_of(chain), placed,
          speeds.empty() ? equal_ranks(placed.ranks) : RankSpeeds(speeds), std::move(less)};
}

std::unique_ptr<const SplitSpace> split_space(const Chain& chain, const std::string& schedule,
                                              const Program& compute,
                                              const std::vector<double>& speeds,
                                              std::vector<int64_t> less) {
  auto devices = std::make_unique<PlacedSpace>(
      placed_space(chain, schedule, compute, speeds, std::move(less)));
  if (chain.forward_host_s.empty()) return devices;
  const Placement placed = placement(compute);
  WorkSums hosts(costs_of(chain, schedule), placed.microbatches,
                 WorkSums::prefixes(chain.costs.units()));
  return std::make_unique<LaunchSpace>(std::move(devices), std::move(hosts), placed);
}

namespace {

/// Does it run backwards in two parts?
bool splits(const Program& compute) {
  bool found = false;
  for (const std::vector<Action>& actions : compute.ranks) {
    for (const Action& action : actions) {
      for_each_part(action,
                    [&](const Action& part) { found |= part.kind == Kind::backward_input; });
    }
  }
  return found;
}

void slow_down(Costs& costs, const Program& compute, const std::vector<double>& speeds) {
  for (size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const double speed = speeds[compute.rank_of_stage[stage]];
    for (double StageCosts::*time_s :
         {&StageCosts::forward_s, &StageCosts::backward_s, &StageCosts::backward_input_s,
          &StageCosts::backward_weight_s, &StageCosts::first_forward_s,
          &StageCosts::first_backward_s, &StageCosts::optimizer_s}) {
      costs.stages[stage].*time_s /= speed;
    }
  }
}

}  // namespace

Simulation simulate_program(const Chain& chain, const std::vector<int>& begins,
                            const Program& compute, const std::vector<double>& speeds) {
  std::vector<Flow> flows;
  for (int stage = 1; stage < static_cast<int>(begins.size()); ++stage) {
    const int cut = begins[stage] - 1;
    if (chain.forward_linked[cut])
      flows.push_back({stage - 1, stage, static_cast<bool>(chain.backward_linked[cut])});
  }
  LoweringOptions options;
  options.optimizer = true;
  Costs costs = stage_costs(chain, begins, splits(compute));
  if (!speeds.empty()) slow_down(costs, compute, speeds);
  return simulate(lower(compute, flows, options), costs, chain.link, {false, false});
}

Simulation simulate_split(const Chain& chain, const std::vector<int>& begins,
                          const std::string& schedule, int microbatches) {
  const int ranks = static_cast<int>(begins.size());
  return simulate_program(chain, begins, compute_program(schedule, ranks, microbatches));
}

ChainBound bound_of(const Chain& chain, const std::string& schedule, int ranks, int microbatches) {
  return ChainBound(chain.costs, ranks, microbatches,
                    in_flight(compute_program(schedule, ranks, microbatches)));
}

}  // namespace penstock::test
