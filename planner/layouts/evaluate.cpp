#include "planner/layouts/evaluate.hpp"

#include <algorithm>
#include <utility>

#include "graph/cuts/cuts.hpp"
#include "simulator/adaptive/adaptive.hpp"
#include "simulator/engine/memory.hpp"

namespace penstock {

namespace {

constexpr size_t max_programs = 2;

bool same(const std::vector<Flow>& a, const std::vector<Flow>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Flow& x, const Flow& y) {
    return x.from == y.from && x.to == y.to && x.gradient == y.gradient;
  });
}

}  // namespace

Plan Evaluator::plan(const PipelineLayout& layout, const std::vector<int>& rank_of_stage,
                     int64_t memory_bytes) const {
  Plan plan;
  plan.layers = inputs_.model.layers;
  plan.job = inputs_.profile.job;
  plan.model_sha256 = inputs_.model.sha256;
  plan.schedule = layout.name();
  plan.microbatches = layout.microbatches;
  plan.microbatch = layout.measured->microbatch;
  plan.data_parallel = layout.data_parallel;
  plan.tensor_parallel = inputs_.parts;
  plan.sharding = inputs_.sharding;
  plan.memory_bytes = memory_bytes;
  if (inputs_.cluster) plan.all_reduce = inputs_.cluster->all_reduce.sums;
  if (layout.cluster()) plan.devices = layout.cluster()->devices;
  for (const int rank : rank_of_stage) plan.stages.emplace_back().rank = rank;
  return plan;
}

const Evaluator::Lowered& Evaluator::lowered(const Plan& plan, const Slicing& slicing) {
  const auto make = [&](std::vector<Flow> flows, std::vector<std::vector<int>> shared) {
    Program program = lowered_program(plan, slicing);
    Program delayed = delay_receives(program);
    return Lowered{std::move(flows), std::move(shared), std::move(program), std::move(delayed)};
  };
  if (plan.generated) return made_ = make({}, {});
  std::vector<std::vector<int>> shared;
  for (const Slicing::Shared& tensor : slicing.shared) shared.push_back(tensor.stages);
  std::vector<Flow> wanted = flows(slicing);
  for (const Lowered& known : lowered_) {
    if (known.shared == shared && same(known.flows, wanted)) return known;
  }
  if (lowered_.size() == max_programs) lowered_.erase(lowered_.begin());
  lowered_.push_back(make(std::move(wanted), std::move(shared)));
  return lowered_.back();
}

Slicing Evaluator::slicing(std::vector<int> stage_of_operator, int stages) const {
  return slice(inputs_.model, inputs_.analysis, std::move(stage_of_operator), stages);
}

Costs Evaluator::costs(const Plan& plan, Slicing& slicing) {
  ++work_.sums;
  note_recompute(plan, inputs_.model, inputs_.units, slicing);
  const MicrobatchCosts* measured = inputs_.profile.at(plan.microbatch);
  const ValueLives* lives = nullptr;
  if (measured != nullptr && measured->operators.size() == inputs_.model.operators.size())
    lives = &inputs_.lives_at(*measured);
  return plan_costs(plan, inputs_.model, slicing, inputs_.profile, inputs_.cluster, lives);
}

const Program& Evaluator::ordered(const Plan& plan, const Slicing& slicing, const Costs& costs) {
  const Lowered& actions = lowered(plan, slicing);
  return costs.receive_depth == 0 ? actions.program : actions.delayed;
}

std::vector<int> Evaluator::held_at_peak(const Plan& plan, const Slicing& slicing,
                                         const Costs& costs, int rank, const RankMemory& memory) {
  return penstock::held_at_peak(ordered(plan, slicing, costs), rank, memory);
}

std::vector<RankMemory> Evaluator::memory(const Plan& plan, const Slicing& slicing,
                                          const Costs& costs,
                                          std::vector<std::optional<RankMemory>> known) {
  const Program& program = ordered(plan, slicing, costs);
  known.resize(program.ranks.size());
  std::vector<RankMemory> memory;
  for (size_t rank = 0; rank < known.size(); ++rank) {
    memory.push_back(known[rank] ? std::move(*known[rank])
                                 : memory_of_rank(program, static_cast<int>(rank), costs));
  }
  return memory;
}

std::optional<Evaluator::Evaluated> Evaluator::evaluate(Plan& plan, Slicing slicing, Costs costs,
                                                        const MemoryLimit& limit,
                                                        const SimulationOptions& options) {
  Evaluated out{std::move(slicing), std::move(costs), {}};
  if (plan.schedule == adaptive_schedule) {
    FoundAdaptive found = find_adaptive(
        adaptive_problem(plan, flows(out.slicing), out.costs, inputs_.network, limit));
    work_.actions += found.actions;
    plan.generated = std::move(found.program);
    if (!plan.generated) return std::nullopt;
  }
  const Lowered& actions = lowered(plan, out.slicing);
  out.simulation = simulate(actions.program, out.costs, inputs_.network,
                            {options.timeline, options.memory, &actions.delayed, options.peaks});
  return out;
}

}  // namespace penstock
