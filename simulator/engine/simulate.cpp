#include "simulator/engine/simulate.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "base/error.hpp"
#include "simulator/engine/compile.hpp"
#include "simulator/engine/deadlock.hpp"
#include "simulator/engine/direct.hpp"
#include "simulator/engine/engine.hpp"
#include "simulator/engine/memory.hpp"

namespace penstock {

namespace {

/// Ascending by (start_s, rank, order in the rank's program).
Timeline make_timeline(const Program& program, const CompiledProgram& compiled,
                       const EngineResult& times) {
  std::vector<int32_t> order(compiled.tasks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return times.start_s[static_cast<size_t>(a)] < times.start_s[static_cast<size_t>(b)];
  });  // tasks are numbered by rank and order, so a stable sort breaks ties as promised
  Timeline timeline;
  timeline.reserve(order.size());
  for (const int32_t task : order) {
    const auto t = static_cast<size_t>(task);
    const int32_t message = compiled.tasks[t].message;
    timeline.push_back({compiled.rank_of_task(task), action_of_task(program, compiled, task),
                        times.start_s[t], times.end_s[t],
                        message < 0 || compiled.tasks[t].op == Task::Op::reduce
                            ? 0
                            : compiled.messages[static_cast<size_t>(message)].bytes});
  }
  return timeline;
}

void summarise(const std::vector<RankTimes>& ranks, Simulation& out) {
  double busy_s = 0;
  for (const RankTimes& rank : ranks) {
    out.makespan_s = std::max(out.makespan_s, rank.now_s);
    out.busy_s.push_back(rank.busy_s);
    out.rank_start_s.push_back(rank.first_s);
    out.rank_end_s.push_back(rank.last_s);
    busy_s += rank.busy_s;
  }
  const double capacity_s = static_cast<double>(ranks.size()) * out.makespan_s;
  out.bubble = capacity_s > 0 ? 1 - busy_s / capacity_s : 0;
}

void add_memory(const std::vector<RankMemory>& ranks, Simulation& out) {
  for (const RankMemory& memory : ranks) {
    out.peak_activations.push_back(memory.peak_activations);
    out.peak_memory_bytes.push_back(memory.peak_bytes);
    out.peak_memory.push_back(memory.peak);
    out.memory.insert(out.memory.end(), memory.samples.begin(), memory.samples.end());
  }
}

}  // namespace

Simulation simulate(const Program& lowered, const Costs& costs, const Network& network,
                    const SimulationOptions& options) {
  const CompiledProgram compiled = compile(lowered, costs, network);
  const EngineResult times = run_engine(compiled, network, options.timeline || options.memory);
  if (!times.finished) {
    throw InputError("program", "deadlock: " + deadlock_report(lowered, compiled, times),
                     "Put each SEND before the action that waits for what it sets off.");
  }
  Simulation out;
  out.actions = static_cast<int64_t>(compiled.tasks.size());
  summarise(times.ranks, out);
  if (options.peaks && !options.memory) {
    add_memory(*options.peaks, out);
  } else {
    const EngineResult* sampled = options.memory ? &times : nullptr;
    add_memory(memory_of_ranks(lowered, costs, &compiled, sampled, options.delayed), out);
  }
  if (options.timeline) out.timeline = make_timeline(lowered, compiled, times);
  return out;
}

Simulation simulate_compute(const Program& compute, const std::vector<Flow>& flows,
                            const Costs& costs, const Network& network,
                            const SimulationOptions& options) {
  const FlowTable table(flows, compute.rank_of_stage);
  if (options.timeline || options.memory || !costs.cores.empty() ||
      !runs_directly(compute, table, network)) {
    return simulate(lower(compute, flows), costs, network, options);
  }
  const auto result = run_direct(compute, table, costs, network);
  if (!result) {
    lower(compute, flows);  // says where it deadlocks
    throw std::logic_error("a program that can be lowered did not finish");
  }
  Simulation out;
  out.actions = 2 * result->messages;
  out.actions += compute.action_count();
  summarise(result->ranks, out);
  add_memory(memory_of_ranks(compute, costs), out);
  return out;
}

}  // namespace penstock
