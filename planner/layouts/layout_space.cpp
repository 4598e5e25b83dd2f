#include "planner/layouts/layout_space.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "pipeline/plan/module_names.hpp"
#include "pipeline/plan/sharing.hpp"
#include "planner/model/refine_cuts.hpp"
#include "planner/splits/even_split.hpp"

namespace penstock {

namespace {

/// Effort of a simulated split: so many actions take one, an operator that is sliced and added up
/// takes more (measured with GPT-3 on 64 ranks, a small transformer on 2, and tables of layers).
constexpr int64_t actions_per_effort = 2, effort_per_operator = 6;
/// Programs as long as the split's: where messages share links or ranks cores, and whatever begins
/// or ends changes the speed of others; lowering the first.
constexpr int64_t programs_of_sharing = 3, programs_of_lowering = 3;
/// So many of the actions that finding a program for `adaptive` takes take one.
constexpr int64_t adapted_per_effort = 3;
/// So many steps of knapsacks take one (600 layers on 8 ranks).
constexpr int64_t steps_per_effort = 200;

/// Effort of looking for the best recompute of a split that a plan is made of.
constexpr int64_t effort_of_plan = 200'000;

PlanningInputs inputs_for(const PlanningInputs& all, const PipelineLayout& layout) {
  const Cluster* cluster = layout.cluster();
  if (!cluster || cluster->devices.empty()) return all;
  PlanningInputs inputs = all;
  inputs.cluster = cluster;
  inputs.network = Network(*cluster);
  return inputs;
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

bool recomputes(const Plan& plan) {
  return std::ranges::any_of(plan.stages,
                             [](const StagePlan& stage) { return stage.recompute.any(); });
}

bool has_empty_stage(const std::vector<int>& stage_of_operator, int stages) {
  std::vector<char> used(static_cast<size_t>(stages), 0);
  for (const int stage : stage_of_operator) used[static_cast<size_t>(stage)] = 1;
  return std::ranges::count(used, 0) > 0;
}

}  // namespace

LayoutSpace::LayoutSpace(const LayoutContext& context, const PipelineLayout& layout,
                         MemoryLimit limit)
    : context_(context),
      layout_(layout),
      inputs_(inputs_for(context.inputs, layout)),
      limit_(std::move(limit)),
      evaluator_(inputs_),
      fit_(inputs_, layout_, placement_, limit_, context.min_memory, evaluator_) {
  const Program compute = layout.compute();
  placement_ = placement(compute);
  placement_.microbatches = static_cast<int>(layout.microbatches);
  ChainCosts costs = layout_costs(context, layout, backward_of(layout, compute));
  for (size_t unit = 0; unit < costs.forward_s.size(); ++unit) {
    const double weight_s = costs.weight_s.empty() ? 0 : costs.weight_s[unit];
    const double device_s = costs.forward_s[unit] + costs.backward_s[unit] + weight_s;
    load_.push_back(std::max(device_s, costs.host_s[unit]));
  }
  shared_ = shared_units(context, layout, limit_, compute, costs);
  const SplitNeeds needs = layout_needs(context, layout, limit_, compute, costs, shared_.get());
  splits_ = layout_splits(context, layout, placement_, limit_, std::move(costs), needs);
}

std::vector<int> LayoutSpace::proposal(int number) const {
  if (layout_.branches) return {};
  if (number == 0) return even_split(load_, placement_.rank_of_stage, layout_.speeds());
  if (number > 1 || !limit_.any()) return {};
  const auto table = context_.bytes(layout_);
  return even_memory_split(table->units(), layout_.stages(), [&](int stage, int begin, int end) {
    const auto s = static_cast<size_t>(stage);
    const int64_t reserved = limit_.reserved_of(placement_.rank_of_stage[s]);
    return table->at(begin, end).recomputed(placement_.held[s]) +
           reserved / layout_.stages_per_rank;
  });
}

/// The stage of each operator.
std::vector<int> LayoutSpace::owners(const std::vector<int>& begins) const {
  if (layout_.branches) {
    const Branches& branches = *context_.branches;
    return branches.units().operators(branches.stage_of_unit(begins));
  }
  return context_.chain.operators(context_.chain.stage_of_unit(begins));
}

LayoutSpace::Result LayoutSpace::plan(const FoundSplit& split, const SimulationOptions& options) {
  const Aim any{std::numeric_limits<double>::infinity(), effort_of_plan, split.outcome.choices};
  Result result = run_placed(split.begins, any, options).value();
  name_stages(inputs_.model, result.evaluated.slicing.stage_of_operator, result.plan);
  return result;
}

std::optional<LayoutSpace::Result> LayoutSpace::refined(const Result& found, double min_gain) {
  const Slicing& slicing = found.evaluated.slicing;
  std::vector<int> stages =
      refined_stages(inputs_.model, inputs_.analysis, slicing, *layout_.measured);
  if (stages == slicing.stage_of_operator) return std::nullopt;
  if (has_empty_stage(stages, layout_.stages())) return std::nullopt;
  std::optional<Result> result = run(std::move(stages), {});
  if (!result) return std::nullopt;
  const double max_s = found.evaluated.simulation.makespan_s * (1 - min_gain);
  if (!fits(*result) || result->evaluated.simulation.makespan_s >= max_s) return std::nullopt;
  name_stages(inputs_.model, result->evaluated.slicing.stage_of_operator, result->plan);
  return result;
}

bool LayoutSpace::places_recompute() const {
  return layout_.schedule && layout_.stages_per_rank > 1 && !context_.min_memory && limit_.any() &&
         (!inputs_.model.layers ||
          std::ranges::any_of(layout_.measured->operators,
                              [](const OperatorCost& layer) { return !layer.recompute.empty(); }));
}

/// Nothing is known where the program has no paths.
BestRecompute LayoutSpace::best_recompute(const std::vector<int>& begins, const Aim& aim) {
  if (!aim.choices.empty()) return {.choices = aim.choices};
  if (!places_recompute()) return {};
  if (!paths_) paths_ = paths(begins);
  if (!paths_ || !paths_->recompute()) return {};
  return penstock::best_recompute(*paths_, begins, aim.most_s, aim.effort, aim.stop);
}

/// With the least recompute, or with the choices that make the step shortest, where these are
/// faster. What lets ranks fit in fact may be more than stages keep: then by the prices of the best
/// choices. The least of a table need not be noted, it is found again. What does not fit with all
/// that it can recompute is left as it is.
std::optional<LayoutSpace::Result> LayoutSpace::run_placed(const std::vector<int>& begins,
                                                           const Aim& aim,
                                                           const SimulationOptions& options) {
  std::optional<Result> best = run(owners(begins), options);
  if (!best) return best;
  const bool layers = inputs_.model.layers, recomputes = penstock::recomputes(best->plan);
  if (layers || !recomputes) best->choices.clear();
  if (!recomputes || !fits(*best) || context_.min_memory) return best;
  const BestRecompute found = best_recompute(begins, aim);
  int simulated = best->simulated;
  for (const RecomputePlacing& placing :
       {RecomputePlacing{found.choices, {}}, RecomputePlacing{{}, found.prices}}) {
    if (placing.choices.empty() && placing.prices.empty()) continue;
    std::optional<Result> placed = run(owners(begins), options, placing);
    simulated += placed->simulated;
    const bool fit = fits(*placed);
    if (better(*placed, *best)) best = std::move(placed);
    if (fit) break;
  }
  best->simulated = simulated;
  if (layout_.schedule && !layers && aim.choices.empty())
    leave_out_needless(*best, begins, aim, options);
  best->effort = found.effort;
  best->more = found.gave_up;
  const double least_s = std::max(found.bound_s, splits_->split_s(begins));
  if (!layers || !layout_.schedule || places_recompute())
    best->slack_s = std::max(0.0, best->evaluated.simulation.makespan_s - least_s);
  return best;
}

/// Only where the split may be the best: choices free more at times than they are expected to.
void LayoutSpace::leave_out_needless(Result& result, const std::vector<int>& begins, const Aim& aim,
                                     const SimulationOptions& options) {
  if (result.evaluated.simulation.makespan_s > aim.most_s || !fits(result)) return;
  Result fewer = run(owners(begins), options, {.choices = result.choices, .fewer = true}).value();
  fewer.simulated += result.simulated;
  if (better(fewer, result)) result = std::move(fewer);
}

std::optional<LayoutSpace::Result> LayoutSpace::run(std::vector<int> stage_of_operator,
                                                    const SimulationOptions& options,
                                                    const RecomputePlacing& placing) {
  Slicing slicing = evaluator_.slicing(std::move(stage_of_operator), layout_.stages());
  const SharingWays ways = context_.ways;
  if (!ways.transmit || !shares_across_ranks(slicing, placement_.rank_of_stage))
    return run_shared(std::move(slicing), false, options, placing);
  if (!ways.replicate) return run_shared(std::move(slicing), true, options, placing);
  std::optional<Result> replicated = run_shared(slicing, false, options, placing);
  if (!replicated) return run_shared(std::move(slicing), true, options, placing);
  std::optional<Result> transmitted = run_shared(slicing, true, options, placing);
  if (!transmitted) return replicated;
  Result best =
      better(*transmitted, *replicated) ? std::move(*transmitted) : std::move(*replicated);
  best.simulated = 2;
  return best;
}

bool LayoutSpace::fits(const Result& one) const {
  return limit_.fullest(one.evaluated.simulation.peak_memory_bytes) <= limit_.max_bytes;
}

/// A split that fits is better than one that does not; then as plans are compared.
bool LayoutSpace::better(const Result& one, const Result& other) const {
  const auto key = [&](const Result& of) {
    const Simulation& run = of.evaluated.simulation;
    const int64_t peak = limit_.fullest(run.peak_memory_bytes);
    const SplitOrder order{context_.min_memory ? SearchObjective::memory : SearchObjective::step};
    return std::pair(!fits(of), order.rank(run.makespan_s, peak));
  };
  return key(one) < key(other);
}

std::optional<LayoutSpace::Result> LayoutSpace::run_shared(Slicing slicing, bool transmitted,
                                                           const SimulationOptions& options,
                                                           const RecomputePlacing& placing) {
  if (transmitted) transmit_all(slicing, placement_.rank_of_stage);
  Result result{evaluator_.plan(layout_, placement_.rank_of_stage, context_.memory_bytes), {}};
  if (context_.ways_of(layout_).state_parts > 1)
    result.plan.optimizer_state = OptimizerState::sharded;
  if (!layout_.schedule) {
    auto evaluated = fit_.adapt(result.plan, slicing, options);
    if (!evaluated) return std::nullopt;
    result.evaluated = std::move(*evaluated);
    return result;
  }
  RecomputeFit::Fitted fitted;
  if (placing.fewer) {
    fitted = fit_.fewer(placing.choices, result.plan, slicing);
  } else if (!placing.choices.empty()) {
    fitted = fit_.note(placing.choices, result.plan, slicing);
  } else if (may_recompute(context_, limit_)) {
    fitted = fit_.fit(result.plan, slicing, placing.prices);
  } else {
    fitted = {evaluator_.costs(result.plan, slicing), {}};
  }
  result.choices = std::move(fitted.choices);
  SimulationOptions wanted = options;
  if (!fitted.memory.empty()) wanted.peaks = &fitted.memory;
  result.evaluated =
      evaluator_.evaluate(result.plan, std::move(slicing), std::move(fitted.costs), limit_, wanted)
          .value();
  return result;
}

SplitOutcome LayoutSpace::simulate(const std::vector<int>& begins, const Aim& aim) {
  constexpr double never = std::numeric_limits<double>::infinity();
  const Evaluator::Work before = evaluator_.work();
  const int64_t steps = fit_.steps();
  const std::optional<Result> result = run_placed(begins, aim, {false, false});
  const Evaluator::Work& after = evaluator_.work();
  const auto operators = static_cast<int64_t>(context_.inputs.model.operators.size());
  const int64_t effort = (after.actions - before.actions) / adapted_per_effort +
                         operators * effort_per_operator * (after.sums - before.sums) +
                         (fit_.steps() - steps) / steps_per_effort;
  if (!result) return {never, INT64_MAX, effort};
  const Simulation& run = result->evaluated.simulation;
  const bool shares = !inputs_.network.capacity().empty() || !result->evaluated.costs.cores.empty();
  const int64_t programs = 1 + (shares ? programs_of_sharing : 0) +
                           (std::exchange(lowered_, true) ? 0 : programs_of_lowering);
  return {run.makespan_s,
          limit_.fullest(run.peak_memory_bytes),
          run.actions * programs * result->simulated / actions_per_effort + result->effort + effort,
          result->slack_s,
          result->more,
          result->choices};
}

}  // namespace penstock
