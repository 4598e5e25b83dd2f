#include "simulator/costs/group_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "graph/analysis/analysis.hpp"
#include "graph/sharding/collectives.hpp"
#include "graph/sharding/saved.hpp"
#include "simulator/costs/collectives.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "simulator/network/grouped.hpp"

namespace penstock {

namespace {

using sharding::Step;

void lengthen(Measured& measured, double seconds) {
  measured.mean_s += seconds;
  measured.median_s += seconds;
}

void lengthen(ActionTimes& times, const ActionSeconds& seconds) {
  lengthen(times.forward, seconds.forward);
  lengthen(times.backward, seconds.backward);
  lengthen(times.backward_input, seconds.backward_input);
  lengthen(times.backward_weight, seconds.backward_weight);
}

/// Adds what the conversions of a graph send.
class CollectiveTimes {
 public:
  /// `scatters`: without it a reduce-scatter is a whole all-reduce.
  CollectiveTimes(const Graph& local, int parts, const Link& link, bool scatters)
      : local_(local),
        analysis_(analyse(local)),
        again_(sharding::gathered_in(local, analysis_)),
        parts_(parts),
        link_(link),
        scatters_(scatters) {}

  void add(MicrobatchCosts& costs) const {
    costs.sent.resize(local_.operators.size());
    if (const auto classes = sharding::split_classes(local_))
      costs.loss_sent_s = of_classes(*local_.first_output(), *classes, costs.microbatch);
    lengthen(costs.loss_forward, costs.loss_sent_s);
    auto unit = costs.units.begin();
    for (size_t id = 0; id < local_.operators.size(); ++id) {
      while (unit != costs.units.end() && unit->end <= static_cast<int>(id)) ++unit;
      const Operator& op = local_.operators[id];
      if (is_recomputed(op, analysis_)) continue;
      const ActionSeconds& sent = costs.sent[id] =
          of(static_cast<OperatorId>(id), costs.microbatch);
      lengthen(costs.operators[id].times, sent);
      if (unit != costs.units.end()) lengthen(unit->times, sent);
    }
  }

 private:
  ActionSeconds of(OperatorId id, int64_t microbatch) const {
    const Operator& op = local_.operators[id];
    if (const auto conversion = sharding::conversion_of(op))
      return of(op, *conversion, again_[id], microbatch);
    if (const auto classes = sharding::split_classes(op))
      return {.forward = of_classes(op.reads().front(), *classes, microbatch)};
    return {};
  }

  /// The numbers that parts of a cross entropy of these logits gather; backward they send nothing.
  double of_classes(ValueId logits, const sharding::Layout& held, int64_t microbatch) const {
    return seconds(Step::all_gather,
                   sharding::class_bytes(local_.values[logits], held, microbatch, parts_));
  }

  ActionSeconds of(const Operator& op, const sharding::Conversion& conversion,
                   const sharding::GatheredIn& again, int64_t microbatch) const {
    const int64_t bytes = whole_bytes(op, conversion, microbatch);
    const double forward = seconds(conversion.forward, bytes);
    const bool back = analysis_.requires_grad[static_cast<size_t>(op.reads().front())];
    const double gradient = back ? seconds(conversion.backward, bytes) : 0;
    return {.forward = forward,
            .backward = gradient + (again.input || again.weight ? forward : 0),
            .backward_input = gradient + (again.input ? forward : 0),
            .backward_weight = again.weight ? forward : 0};
  }

  double seconds(Step step, int64_t bytes) const {
    if (step == Step::reduce_scatter && !scatters_) step = Step::all_reduce;
    return collective_s(step, bytes, parts_, link_);
  }

  /// Bytes of the value that is converted, as all parts have it together.
  int64_t whole_bytes(const Operator& op, const sharding::Conversion& conversion,
                      int64_t batch) const {
    const Value& from = local_.values[static_cast<size_t>(op.reads().front())];
    const Value& to = local_.values[static_cast<size_t>(op.outputs.front())];
    if (!conversion.from.is_split()) return from.bytes(batch);
    return conversion.to.is_split() ? parts_ * to.bytes(batch) : to.bytes(batch);
  }

  const Graph& local_;
  const Analysis analysis_;
  const std::vector<sharding::GatheredIn> again_;  // by operator
  const int parts_;
  const Link link_;
  const bool scatters_;
};

std::string known_groups(const Profile& profile) {
  std::string known;
  for (const GroupCosts& group : profile.groups) {
    std::string sizes;
    for (const MicrobatchCosts& size : group.microbatches)
      sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", size.microbatch);
    known +=
        fmt::format("{}{} parts at microbatch {}", known.empty() ? "" : "; ", group.parts, sizes);
  }
  return known;
}

}  // namespace

const GroupCosts& group_costs(const Plan& plan, const Profile& profile) {
  if (plan.job.forward_only)
    throw InputError(plan.path, "costs of tensor groups are known of training alone",
                     "Such a plan can be executed with --forward-only, not simulated.");
  bool other_sharding = false;
  for (const GroupCosts& group : profile.groups) {
    if (group.parts != plan.tensor_parallel) continue;
    const bool has_size =
        std::ranges::find(group.microbatches, plan.microbatch, &MicrobatchCosts::microbatch) !=
        group.microbatches.end();
    if (has_size && group.sharding == plan.sharding) return group;
    other_sharding |= has_size;
  }
  const bool unsaid = plan.sharding == sharding::Pins();
  const std::string known = known_groups(profile);
  throw InputError(
      profile.path,
      fmt::format("nothing is known of tensor groups of {} at microbatch {}{}",
                  plan.tensor_parallel, plan.microbatch,
                  other_sharding ? " with the plan's `sharding`" : ""),
      (other_sharding && unsaid
           ? "Give the plan the `sharding` of one of the profile's `groups`."
           : fmt::format("Profile the job with --tensor-parallel {}{}.", plan.tensor_parallel,
                         unsaid ? "" : " --sharding PLAN.yaml")) +
          (known.empty() ? "" : fmt::format(" It has {}.", known)));
}

Profile group_profile(const Profile& profile, const GroupCosts& group, const Graph& local,
                      const Cluster* grouped) {
  Profile result = profile;
  result.groups.clear();
  result.replays.clear();
  result.microbatches = group.microbatches;
  const CollectiveTimes times(local, group.parts,
                              grouped ? group_link(*grouped) : sum_link(profile),
                              has_reduce_scatter(profile, grouped, true));
  for (MicrobatchCosts& costs : result.microbatches) {
    if (costs.operators.size() != local.operators.size())
      throw InputError(profile.path,
                       fmt::format("{} operators of a part were profiled, but it has {}",
                                   costs.operators.size(), local.operators.size()),
                       "Profile the job again with this version.");
    times.add(costs);
  }
  return result;
}

}  // namespace penstock
