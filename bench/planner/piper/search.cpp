#include "bench/planner/piper/search.hpp"

#include <algorithm>

#include "bench/planner/infinite.hpp"

namespace penstock::bench {

int samples_in_flight(int samples, int d) { return (samples + d - 1) / d; }

PiperSearch::PiperSearch(const PiperGraph& graph, Downsets& downsets)
    : stages_(graph),
      devices_(graph.devices),
      max_samples_(std::min(graph.batch, graph.devices)),
      behind_(downsets.count()) {
  for (int d = 1; d <= max_samples_; ++d)
    if (graph.batch % d == 0) degrees_.push_back(d);
  std::set<int> tensor_parallel;
  for (const PiperNode& node : graph.nodes)
    for (const auto& [t, variants] : node.variants)
      if (t <= graph.devices) tensor_parallel.insert(t);
  for (int from = 0; from < downsets.count(); ++from) list(downsets, from, tensor_parallel);
}

double PiperSearch::find(double bound_s) {
  for (std::vector<Behind>& plans : behind_) plans.clear();
  behind_.back().push_back({});
  for (size_t from = behind_.size() - 1; from-- > 0;)
    for (int i = 0; i < static_cast<int>(candidates_[from].size()); ++i)
      extend(static_cast<int>(from), i, bound_s);
  return behind_.front().empty() ? infinite : fastest().longest_s;
}

std::vector<PiperStage> PiperSearch::stages() const {
  std::vector<PiperStage> result;
  int set = 0;
  for (const Behind* plan = &fastest(); plan->candidate >= 0;) {
    const Candidate& stage = candidates_[set][plan->candidate];
    const int d = degrees_[plan->d];
    const Choice choice = stage.option.choice(plan->d, samples_in_flight(plan->samples, d));
    result.push_back({stage.option.nodes(), choice.variants, d, stage.option.tensor_parallel()});
    set = stage.to;
    plan = &behind_[set][plan->rest];
  }
  return result;
}

void PiperSearch::list(Downsets& downsets, int from, const std::set<int>& tensor_parallel) {
  std::vector<int> nodes;
  candidates_.emplace_back();
  downsets.walk_up(
      from,
      [&](const Downsets::Step& step) {
        nodes.push_back(step.node);
        std::vector<int> sorted = nodes;
        std::ranges::sort(sorted);
        for (const int t : tensor_parallel) {
          StageOption option(stages_, sorted, t, degrees_);
          if (option.possible()) candidates_.back().push_back({step.downset, std::move(option)});
        }
        return true;
      },
      [&](const Downsets::Step&) { nodes.pop_back(); });
}

const PiperSearch::Behind& PiperSearch::fastest() const {
  return *std::ranges::min_element(behind_.front(), {}, &Behind::longest_s);
}

/// Puts the stage before all plans behind it, each time with the least d that keeps the bound: a
/// larger one takes more samples and more devices.
void PiperSearch::extend(int from, int candidate, double bound_s) {
  const auto& [to, option] = candidates_[from][candidate];
  for (int rest = 0; rest < static_cast<int>(behind_[to].size()); ++rest) {
    const Behind& plan = behind_[to][rest];
    for (int i = 0; i < static_cast<int>(degrees_.size()); ++i) {
      const int samples = plan.samples + degrees_[i];
      const int64_t devices =
          plan.devices + static_cast<int64_t>(degrees_[i]) * option.tensor_parallel();
      if (samples > max_samples_ || devices > devices_) break;
      if (option.least_s(i) > bound_s) continue;
      const double time_s = option.time_s(i, samples_in_flight(samples, degrees_[i]), bound_s);
      if (time_s > bound_s) continue;
      keep(behind_[from], {samples, static_cast<int>(devices), std::max(plan.longest_s, time_s),
                           candidate, i, rest});
      break;
    }
  }
}

void PiperSearch::keep(std::vector<Behind>& plans, const Behind& plan) {
  const auto covers = [](const Behind& a, const Behind& b) {
    return a.samples <= b.samples && a.devices <= b.devices;
  };
  if (std::ranges::any_of(plans, [&](const Behind& other) { return covers(other, plan); })) return;
  std::erase_if(plans, [&](const Behind& other) { return covers(plan, other); });
  plans.push_back(plan);
}

}  // namespace penstock::bench
