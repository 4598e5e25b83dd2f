#include "planner/layouts/evaluate.hpp"

#include <algorithm>
#include <utility>

#include "graph/cuts/cuts.hpp"
#include "simulator/adaptive/adaptive.hpp"
#include "simulator/engine/memory.hpp"

namespace penstock {

namespace {

constexpr size_t max_programs = 8;

bool same(const std::vector<Flow>& a, const std::vector<Flow>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Flow& x, const Flow& y) {
    return x.from == y.from && x.to == y.to && x.gradient == y.gradient;
  });
}

}  // namespace

Plan Evaluator::plan(const PipelineLayout& layout, const std::vector<int>& rank_of_stage,
                     int64_t memory_bytes) const {
  Plan plan;
  plan.job = inputs_.profile.job;
  plan.model_sha256 = inputs_.model.sha256;
  plan.schedule = layout.name();
  plan.microbatches = layout.microbatches;
  plan.microbatch = layout.measured->microbatch;
  plan.data_parallel = layout.data_parallel;
  plan.memory_bytes = memory_bytes;
  if (inputs_.cluster) plan.all_reduce = inputs_.cluster->all_reduce.sums;
  if (layout.cluster()) plan.devices = layout.cluster()->devices;
  for (const int rank : rank_of_stage) plan.stages.emplace_back().rank = rank;
  return plan;
}

const Program& Evaluator::program(const Plan& plan, const Slicing& slicing) {
  if (plan.generated) {
    made_ = lowered_program(plan, slicing);
    return made_;
  }
  std::vector<std::vector<int>> shared;
  for (const Slicing::Shared& tensor : slicing.shared) shared.push_back(tensor.stages);
  const std::vector<Flow> wanted = flows(slicing);
  for (const Lowered& known : lowered_) {
    if (known.shared == shared && same(known.flows, wanted)) return known.program;
  }
  if (lowered_.size() == max_programs) lowered_.erase(lowered_.begin());
  lowered_.push_back({wanted, shared, lowered_program(plan, slicing)});
  return lowered_.back().program;
}

Slicing Evaluator::slicing(std::vector<int> stage_of_operator, int stages) const {
  return slice(inputs_.model, inputs_.analysis, std::move(stage_of_operator), stages);
}

Costs Evaluator::costs(const Plan& plan, Slicing& slicing) const {
  note_recompute(plan, inputs_.units, slicing);
  return plan_costs(plan, inputs_.model, slicing, inputs_.profile, inputs_.cluster);
}

std::vector<int64_t> Evaluator::peaks(const Plan& plan, const Slicing& slicing,
                                      const Costs& costs) {
  const Program& actions = program(plan, slicing);
  std::vector<int64_t> bytes;
  bytes.reserve(actions.ranks.size());
  const auto ranks = static_cast<int>(actions.ranks.size());
  for (int rank = 0; rank < ranks; ++rank) {
    bytes.push_back(rank_memory(actions, rank, costs, nullptr, nullptr).peak_bytes);
  }
  return bytes;
}

std::optional<Evaluator::Evaluated> Evaluator::evaluate(Plan& plan, Slicing slicing, Costs costs,
                                                        const MemoryLimit& limit,
                                                        const SimulationOptions& options) {
  Evaluated out{std::move(slicing), std::move(costs), {}};
  if (plan.schedule == adaptive_schedule) {
    plan.generated = find_adaptive(
        adaptive_problem(plan, flows(out.slicing), out.costs, inputs_.network, limit));
    if (!plan.generated) return std::nullopt;
  }
  out.simulation = simulate(program(plan, out.slicing), out.costs, inputs_.network, options);
  return out;
}

}  // namespace penstock
