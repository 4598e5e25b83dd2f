#include "planner/evaluate.hpp"

#include <algorithm>

#include "graph/cuts.hpp"
#include "simulator/plan_costs.hpp"

namespace penstock {

namespace {

constexpr size_t most_programs = 64;

bool same(const std::vector<Flow>& a, const std::vector<Flow>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Flow& x, const Flow& y) {
    return x.from == y.from && x.to == y.to && x.gradient == y.gradient;
  });
}

}  // namespace

Plan Evaluator::plan(const Candidate& candidate, const std::vector<OperatorId>& begins) const {
  Plan plan;
  plan.job = profile_.job;
  plan.model_sha256 = model_.sha256;
  plan.schedule = candidate.schedule->name;
  plan.microbatches = candidate.microbatches;
  plan.microbatch = candidate.measured->microbatch;
  for (size_t stage = 0; stage < begins.size(); ++stage) {
    StagePlan& out = plan.stages.emplace_back();
    out.rank = static_cast<int>(stage);
    if (stage > 0) out.begin = begin_name(model_, begins[stage]);
  }
  return plan;
}

const Program& Evaluator::program(const Plan& plan, const Slicing& slicing) {
  std::vector<std::vector<int>> shared;
  for (const Slicing::Shared& tensor : slicing.shared) shared.push_back(tensor.stages);
  const std::vector<Flow> wanted = flows(slicing);
  for (const Lowered& known : lowered_) {
    if (known.schedule == plan.schedule && known.microbatches == plan.microbatches &&
        known.shared == shared && same(known.flows, wanted))
      return known.program;
  }
  if (lowered_.size() == most_programs) lowered_.erase(lowered_.begin());
  lowered_.push_back(
      {plan.schedule, plan.microbatches, wanted, shared, lowered_program(plan, slicing)});
  return lowered_.back().program;
}

Evaluator::Evaluated Evaluator::evaluate(const Plan& plan, const std::vector<OperatorId>& begins,
                                         const SimulationOptions& options) {
  Evaluated out;
  out.slicing =
      slice(model_, analysis_, interval_stages(model_, begins), static_cast<int>(begins.size()));
  out.costs = plan_costs(plan, model_, out.slicing, profile_, cluster_);
  out.simulation = simulate(program(plan, out.slicing), out.costs, network_, options);
  return out;
}

}  // namespace penstock
