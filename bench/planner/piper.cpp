// For a bound on the time of a stage, the plans that keep it are found from the last stage on: for
// every downset the pairs (sum of d, devices) that the stages behind it can have, without those to
// which another is nowhere larger. Fewer of both are never worse for the stages before. The least
// bound for which there is a plan is found by halving, and in the end by asking for anything faster
// than the best plan.
#include "bench/planner/piper.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "bench/planner/infinite.hpp"
#include "bench/planner/piper_stages.hpp"

namespace penstock::bench {

namespace {

struct Candidate {  // a stage that begins behind a downset
  int to;           // the downset with it
  StageOption option;
};

/// Plans for the nodes outside a downset.
struct Behind {
  int samples = 0;  // sum of d
  int devices = 0;
  double longest_s = 0;
  int candidate = -1, d = -1, rest = -1;  // the first stage; the plan behind it, of its `to`
};

int samples_in_flight(int samples, int d) { return (samples + d - 1) / d; }

class PiperSearch {
 public:
  PiperSearch(const PiperGraph& graph, Downsets& downsets)
      : graph_(graph),
        most_samples_(std::min(graph.batch, graph.devices)),
        behind_(downsets.count()) {
    for (int d = 1; d <= most_samples_; ++d)
      if (graph.batch % d == 0) degrees_.push_back(d);
    std::set<int> tensor_parallel;
    for (const PiperNode& node : graph.nodes)
      for (const auto& [t, variants] : node.variants)
        if (t <= graph.devices) tensor_parallel.insert(t);
    for (int from = 0; from < downsets.count(); ++from) list(downsets, from, tensor_parallel);
  }

  /// The longest stage's time in a plan with all of them within the bound; infinite if none is.
  double find(double bound_s) {
    for (std::vector<Behind>& plans : behind_) plans.clear();
    behind_.back().push_back({});
    for (size_t from = behind_.size() - 1; from-- > 0;)
      for (int i = 0; i < static_cast<int>(candidates_[from].size()); ++i)
        extend(static_cast<int>(from), i, bound_s);
    return behind_.front().empty() ? infinite : fastest().longest_s;
  }

  std::vector<PiperStage> stages() const {
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

 private:
  void list(Downsets& downsets, int from, const std::set<int>& tensor_parallel) {
    std::vector<int> nodes;
    candidates_.emplace_back();
    downsets.walk_up(
        from,
        [&](const Downsets::Step& step) {
          nodes.push_back(step.node);
          std::vector<int> sorted = nodes;
          std::ranges::sort(sorted);
          for (const int t : tensor_parallel) {
            StageOption option(graph_, sorted, t, degrees_);
            if (option.possible()) candidates_.back().push_back({step.downset, std::move(option)});
          }
          return true;
        },
        [&](const Downsets::Step&) { nodes.pop_back(); });
  }

  const Behind& fastest() const {
    return *std::ranges::min_element(behind_.front(), {}, &Behind::longest_s);
  }

  /// Puts the stage before all plans behind it, each time with the least d that keeps the bound: a
  /// larger one takes more samples and more devices.
  void extend(int from, int candidate, double bound_s) {
    const auto& [to, option] = candidates_[from][candidate];
    for (int rest = 0; rest < static_cast<int>(behind_[to].size()); ++rest) {
      const Behind& plan = behind_[to][rest];
      for (int i = 0; i < static_cast<int>(degrees_.size()); ++i) {
        const int samples = plan.samples + degrees_[i];
        const int64_t devices =
            plan.devices + static_cast<int64_t>(degrees_[i]) * option.tensor_parallel();
        if (samples > most_samples_ || devices > graph_.devices) break;
        if (option.unlimited_s(i) > bound_s) continue;
        const double time_s = option.time_s(i, samples_in_flight(samples, degrees_[i]));
        if (time_s > bound_s) continue;
        keep(behind_[from], {samples, static_cast<int>(devices), std::max(plan.longest_s, time_s),
                             candidate, i, rest});
        break;
      }
    }
  }

  static void keep(std::vector<Behind>& plans, const Behind& plan) {
    const auto covers = [](const Behind& a, const Behind& b) {
      return a.samples <= b.samples && a.devices <= b.devices;
    };
    if (std::ranges::any_of(plans, [&](const Behind& other) { return covers(other, plan); }))
      return;
    std::erase_if(plans, [&](const Behind& other) { return covers(plan, other); });
    plans.push_back(plan);
  }

  const PiperGraph& graph_;
  int most_samples_;
  std::vector<int> degrees_;                        // that d can have
  std::vector<std::vector<Candidate>> candidates_;  // by the downset before the stage
  std::vector<std::vector<Behind>> behind_;         // by downset
};

/// No plan is as fast: the nodes' device time, each in its best variant, spread over all devices.
double least_s(const PiperGraph& graph) {
  double device_s = 0;
  for (const PiperNode& node : graph.nodes) {
    double node_s = infinite;
    for (const auto& [t, variants] : node.variants)
      for (const PiperVariant& variant : variants) node_s = std::min(node_s, t * variant.time_s);
    device_s += node_s;
  }
  return 0.999 * device_s / graph.devices;
}

}  // namespace

PiperPlan solve_piper(const PiperGraph& graph, size_t downset_limit) {
  Downsets downsets(graph.dag, downset_limit);
  PiperPlan plan{.downsets = downsets.count(), .exact = downsets.complete()};
  PiperSearch search(graph, downsets);
  // From below: the larger the bound, the more stages there are to look at.
  double failed_s = least_s(graph), found_s = infinite;
  for (int i = 0; i < 40 && failed_s > 0 && found_s == infinite; ++i) {
    found_s = search.find(1.25 * failed_s);
    if (found_s == infinite) failed_s *= 1.25;
  }
  if (found_s == infinite) found_s = search.find(std::numeric_limits<double>::max());
  while (found_s < infinite) {
    plan.stages = search.stages();
    if (found_s == 0) break;  // nothing is faster
    double faster_s = infinite;
    while (faster_s == infinite) {
      const bool near = found_s - failed_s <= 1e-6 * found_s;
      const double bound_s = near ? std::nextafter(found_s, 0.0) : (failed_s + found_s) / 2;
      faster_s = search.find(bound_s);
      if (near) break;
      if (faster_s == infinite) failed_s = bound_s;
    }
    found_s = faster_s;
  }
  plan.sample_s = plan.stages.empty() ? infinite : piper_sample_s(graph, plan.stages);
  return plan;
}

double piper_sample_s(const PiperGraph& graph, const std::vector<PiperStage>& stages) {
  int samples = 0;
  for (const PiperStage& stage : stages) samples += stage.data_parallel;
  double longest_s = 0;
  for (const PiperStage& stage : stages) {
    const auto variants = at(stage_variants(graph, stage.nodes, stage.tensor_parallel),
                             stage.data_parallel, samples_in_flight(samples, stage.data_parallel));
    double time_s = 0, bytes = 0;
    for (size_t i = 0; i < variants.size(); ++i) {
      time_s += variants[i][stage.variants[i]].time_s;
      bytes += variants[i][stage.variants[i]].bytes;
    }
    if (bytes > graph.device_bytes) return infinite;
    longest_s = std::max(longest_s, time_s);
    samples -= stage.data_parallel;
  }
  return longest_s;
}

}  // namespace penstock::bench
