#include "planner/layout_space.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "graph/error.hpp"
#include "graph/segments.hpp"
#include "pipeline/module_names.hpp"
#include "pipeline/sharing.hpp"
#include "planner/chain_space.hpp"
#include "planner/downset_space.hpp"
#include "planner/even_split.hpp"
#include "planner/in_flight.hpp"
#include "planner/placed_space.hpp"
#include "planner/refine_cuts.hpp"

namespace penstock {

namespace {

/// Steps of a dynamic programme over ranks and pairs of units, beyond which the sharper bounds cost more
/// than they save.
constexpr int64_t most_chain_steps = 400'000;

/// What a simulated split costs beside its actions, in actions: slicing and adding up operators, and
/// the programs that `adaptive` chooses from.
constexpr int64_t effort_per_operator = 8, programs_of_adaptive = 60;
/// Where messages share links, each that begins or ends changes the speed of the others.
constexpr int64_t programs_of_sharing = 3;
/// … and lowering the first.
constexpr int64_t programs_of_lowering = 3;

/// Of a step, for which a plan that other tools can read may be given up.
constexpr double least_gain = 1e-3;

ModelChain::Backward backward_of(const PipelineLayout& layout, const Program& compute) {
  if (!layout.schedule) return ModelChain::Backward::either;
  if (!layout.schedule->split_backward) return ModelChain::Backward::whole;
  bool whole = false;
  for (const std::vector<Action>& actions : compute.ranks) {
    for (const Action& action : actions) {
      for_each_part(action, [&](const Action& part) { whole |= part.kind == Kind::backward; });
    }
  }
  return whole ? ModelChain::Backward::either : ModelChain::Backward::split;
}

PlanningInputs inputs_for(const PlanningInputs& all, const PipelineLayout& layout) {
  const Cluster* cluster = layout.cluster();
  if (!cluster || cluster->devices.empty()) return all;
  return {all.model, all.analysis, all.profile, cluster, Network(*cluster), all.units};
}

/// As on a device of that speed.
void hasten(ChainCosts& costs, double speed) {
  for (std::vector<double> ChainCosts::*times :
       {&ChainCosts::forward_s, &ChainCosts::backward_s, &ChainCosts::weight_s,
        &ChainCosts::first_forward_s, &ChainCosts::first_backward_s, &ChainCosts::optimizer_s}) {
    for (double& time_s : costs.*times) time_s /= speed;
  }
  for (double ChainCosts::*time_s :
       {&ChainCosts::action_s, &ChainCosts::first_action_s, &ChainCosts::weight_action_s}) {
    costs.*time_s /= speed;
  }
}

ChainCosts costs_of(const LayoutContext& context, const PipelineLayout& layout,
                    ModelChain::Backward backward) {
  const PlanningInputs& inputs = context.inputs;
  const ModelChain& units = layout.branches ? context.branches->units() : context.chain;
  ChainCosts costs = units.costs(inputs.profile, *layout.measured, context.link,
                                 context.reduce_link, layout.stages(), backward, context.ways);
  hasten(costs, layout.speeds().fastest());
  if (layout.stages_per_rank > 1) costs.reduce_s = 0;  // one rank may hold all that share
  const AllReduce how = inputs.cluster ? inputs.cluster->all_reduce : AllReduce{};
  if (layout.data_parallel == 1 || how.overlap || context.reduce_link.bandwidth <= 0) return costs;
  // Every rank sends and receives so much of what it sums, whatever the algorithm.
  const auto replicas = static_cast<double>(layout.data_parallel);
  const double share = 2 * (replicas - 1) / replicas / context.reduce_link.bandwidth;
  for (const int64_t bytes : units.gradient_bytes(inputs.profile.job, context.ways)) {
    costs.unit_reduce_s.push_back(share * static_cast<double>(bytes));
  }
  return costs;
}

bool may_recompute(const LayoutContext& context, const MemoryLimit& limit) {
  return context.least_memory || limit.any();
}

/// What forwards take that run again, and what they free at most.
RecomputeBound recompute_bound(const PlanningInputs& inputs, const PipelineLayout& layout) {
  const double times =
      (static_cast<double>(layout.microbatches) + layout.measured->first_microbatch_excess) /
      layout.speeds().fastest();
  std::vector<RecomputeBound::Unit> units;
  OperatorId next = 0;
  for (OperatorId op = 0; op < static_cast<OperatorId>(inputs.model.operators.size()); ++op) {
    if (next < static_cast<OperatorId>(inputs.units.size()) &&
        op == inputs.units[static_cast<size_t>(next)]) {
      units.emplace_back();
      ++next;
    }
    const auto at = static_cast<size_t>(op);
    const OperatorCost& cost = layout.measured->operators[at];
    units.back().bytes += static_cast<double>(cost.held.after_forward);
    if (is_recomputed(inputs.model.operators[at], inputs.analysis)) continue;
    units.back().forward_s += times * cost.times.forward.mean_s;
  }
  return RecomputeBound(std::move(units));
}

std::unique_ptr<const SplitSpace> split_space(const LayoutContext& context,
                                              const PipelineLayout& layout, const Program& compute,
                                              const Placement& placement, const MemoryLimit& limit,
                                              ChainCosts costs) {
  if (layout.branches)
    return std::make_unique<DownsetSpace>(costs, context.branches, placement, layout.speeds());
  const auto& bytes = context.bytes.at(layout.measured->microbatch);
  const int64_t units = costs.units();
  const bool chain = layout.schedule && layout.stages_per_rank == 1 && costs.weight_s.empty() &&
                     costs.unit_reduce_s.empty() && layout.speeds().equal() && limit.less.empty();
  if (chain && layout.ranks * units * units <= most_chain_steps) {
    std::vector<int> held = in_flight(compute);
    return std::make_unique<ChainSpace>(
        ChainBound(std::move(costs), layout.ranks, static_cast<int>(layout.microbatches), held),
        ChainMemory(bytes, layout.ranks, held, may_recompute(context, limit)));
  }
  if (!may_recompute(context, limit))
    return std::make_unique<PlacedSpace>(std::move(costs), bytes, placement, layout.speeds(),
                                         limit.less);
  return std::make_unique<PlacedSpace>(
      std::move(costs), bytes, placement, layout.speeds(), limit.less,
      PlacedSpace::Recompute{limit.most, recompute_bound(context.inputs, layout)});
}

bool shares_across_ranks(const Slicing& slicing, const std::vector<int>& rank_of_stage) {
  return std::ranges::any_of(slicing.shared, [&](const Slicing::Shared& shared) {
    return !holders_of(shared, rank_of_stage).others.empty();
  });
}

/// All that several ranks hold.
void transmit_all(Slicing& slicing, const std::vector<int>& rank_of_stage) {
  for (Slicing::Shared& shared : slicing.shared)
    shared.transmitted = !holders_of(shared, rank_of_stage).others.empty();
}

/// Nothing where `adaptive` finds nothing that fits.
template <class Run>
std::optional<LayoutSpace::Result> attempt(const Run& run) {
  try {
    return run();
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

ChainCosts layout_costs(const LayoutContext& context, const PipelineLayout& layout) {
  return costs_of(context, layout, ModelChain::Backward::either);
}

LayoutSpace::LayoutSpace(const LayoutContext& context, const PipelineLayout& layout,
                         MemoryLimit limit)
    : context_(context),
      layout_(layout),
      inputs_(inputs_for(context.inputs, layout)),
      limit_(std::move(limit)),
      evaluator_(inputs_) {
  const Program compute = layout.compute();
  placement_ = placement(compute);
  placement_.microbatches = static_cast<int>(layout.microbatches);
  ChainCosts costs = costs_of(context, layout, backward_of(layout, compute));
  for (size_t unit = 0; unit < costs.forward_s.size(); ++unit) {
    const double weight_s = costs.weight_s.empty() ? 0 : costs.weight_s[unit];
    load_.push_back(costs.forward_s[unit] + costs.backward_s[unit] + weight_s);
  }
  splits_ = split_space(context, layout, compute, placement_, limit_, std::move(costs));
}

std::vector<int> LayoutSpace::proposal() const {
  if (layout_.branches) return {};
  return even_split(load_, placement_.rank_of_stage, layout_.speeds());
}

RecomputeLevels LayoutSpace::levels(const Slicing& slicing) const {
  return {placement_.rank_of_stage, units_of_stages(slicing, context_.inputs.units)};
}

/// Makes ranks fit that would not, or hold as little as they can. Counts how often it had to look.
Costs LayoutSpace::fit(Plan& plan, Slicing& slicing, int& looked) {
  const RecomputeLevels of = levels(slicing);
  std::vector<int> noted;
  Costs costs;
  const auto peaks = [&](const std::vector<int>& levels) {
    noted = levels;
    of.note(levels, plan);
    costs = evaluator_.costs(plan, slicing);
    ++looked;
    return evaluator_.peaks(plan, slicing, costs);
  };
  const std::vector<int> chosen =
      context_.least_memory ? lowest_levels(of, peaks) : least_levels(of, limit_, peaks);
  if (chosen == noted) return costs;
  of.note(chosen, plan);
  ++looked;
  return evaluator_.costs(plan, slicing);
}

/// Of `adaptive`, which fails where it finds nothing that fits: all ranks alike.
Evaluator::Evaluated LayoutSpace::adapt(Plan& plan, const Slicing& slicing,
                                        const SimulationOptions& options) {
  const RecomputeLevels of = levels(slicing);
  const auto evaluated = [&](const std::vector<int>& levels) {
    of.note(levels, plan);
    Slicing own = slicing;
    Costs costs = evaluator_.costs(plan, own);
    return evaluator_.evaluate(plan, std::move(own), std::move(costs), limit_, options);
  };
  std::vector<int> all_units, whole;
  for (int rank = 0; rank < of.ranks(); ++rank) {
    all_units.push_back(of.all_units(rank));
    whole.push_back(of.whole(rank));
  }
  if (context_.least_memory) return evaluated(whole);
  for (const std::vector<int>& levels : {std::vector<int>(whole.size(), 0), all_units}) {
    try {
      return evaluated(levels);
    } catch (const InputError&) {
    }
  }
  return evaluated(whole);
}

/// The stage of each operator.
std::vector<int> LayoutSpace::owners(const std::vector<int>& begins) const {
  if (layout_.branches) {
    const Branches& branches = *context_.branches;
    return branches.units().operators(branches.stage_of_unit(begins));
  }
  return context_.chain.operators(context_.chain.stage_of_unit(begins));
}

LayoutSpace::Result LayoutSpace::plan(const std::vector<int>& begins,
                                      const SimulationOptions& options) {
  Result result = run(owners(begins), options);
  name_stages(inputs_.model, result.evaluated.slicing.stage_of_operator, result.plan);
  return result;
}

std::optional<LayoutSpace::Result> LayoutSpace::refined(const Result& found) {
  const Slicing& slicing = found.evaluated.slicing;
  std::vector<int> stages =
      refined_stages(inputs_.model, inputs_.analysis, slicing, *layout_.measured);
  if (stages == slicing.stage_of_operator) return std::nullopt;
  try {
    Result result = run(std::move(stages), {});
    const Simulation& run = result.evaluated.simulation;
    const bool fits = limit_.fullest(run.peak_memory_bytes) <= limit_.most;
    const double most_s = found.evaluated.simulation.makespan_s * (1 - least_gain);
    if (!fits || run.makespan_s >= most_s) return std::nullopt;
    name_stages(inputs_.model, result.evaluated.slicing.stage_of_operator, result.plan);
    return result;
  } catch (const InputError&) {
    return std::nullopt;  // a stage without operators, or buffers that it would tear apart
  }
}

LayoutSpace::Result LayoutSpace::run(std::vector<int> stage_of_operator,
                                     const SimulationOptions& options) {
  Slicing slicing = evaluator_.slicing(std::move(stage_of_operator), layout_.stages());
  const SharingWays ways = context_.ways;
  if (!ways.transmit || !shares_across_ranks(slicing, placement_.rank_of_stage))
    return run_shared(std::move(slicing), false, options);
  if (!ways.replicate) return run_shared(std::move(slicing), true, options);
  std::optional<Result> replicated = attempt([&] { return run_shared(slicing, false, options); });
  if (!replicated) return run_shared(std::move(slicing), true, options);
  std::optional<Result> transmitted = attempt([&] { return run_shared(slicing, true, options); });
  if (!transmitted) return std::move(*replicated);
  const int looked = replicated->looked + transmitted->looked;
  Result best =
      better(*transmitted, *replicated) ? std::move(*transmitted) : std::move(*replicated);
  best.looked = looked;
  best.simulated = 2;
  return best;
}

/// What fits is better than what does not; then as plans are compared.
bool LayoutSpace::better(const Result& one, const Result& other) const {
  const auto key = [&](const Result& of) {
    const Simulation& run = of.evaluated.simulation;
    const int64_t peak = limit_.fullest(run.peak_memory_bytes);
    const auto objective = context_.least_memory ? SearchObjective::memory : SearchObjective::step;
    return std::pair(peak > limit_.most, key_rank(run.makespan_s, peak, objective));
  };
  return key(one) < key(other);
}

LayoutSpace::Result LayoutSpace::run_shared(Slicing slicing, bool transmitted,
                                            const SimulationOptions& options) {
  if (transmitted) transmit_all(slicing, placement_.rank_of_stage);
  Result result{evaluator_.plan(layout_, placement_.rank_of_stage, context_.memory_bytes), {}};
  if (!layout_.schedule) {
    result.looked = 1;
    result.evaluated = adapt(result.plan, slicing, options);
    return result;
  }
  Costs costs;
  if (may_recompute(context_, limit_)) {
    costs = fit(result.plan, slicing, result.looked);
  } else {
    costs = evaluator_.costs(result.plan, slicing);
    result.looked = 1;
  }
  result.evaluated =
      evaluator_.evaluate(result.plan, std::move(slicing), std::move(costs), limit_, options);
  return result;
}

SplitOutcome LayoutSpace::simulate(const std::vector<int>& begins) {
  constexpr double never = std::numeric_limits<double>::infinity();
  try {
    const Result result = run(owners(begins), {false, false});
    const Simulation& run = result.evaluated.simulation;
    const auto operators = static_cast<int64_t>(context_.inputs.model.operators.size());
    const int64_t programs = (layout_.schedule ? 1 : programs_of_adaptive) +
                             (inputs_.network.capacity().empty() ? 0 : programs_of_sharing) +
                             (std::exchange(lowered_, true) ? 0 : programs_of_lowering);
    return {run.makespan_s, limit_.fullest(run.peak_memory_bytes),
            run.actions * programs * result.simulated +
                operators * effort_per_operator * result.looked};
  } catch (const InputError&) {
    return {never, INT64_MAX, 0};
  }
}

}  // namespace penstock
