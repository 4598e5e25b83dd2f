#include "simulator/adaptive/adaptive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "pipeline/program/schedule.hpp"
#include "simulator/adaptive/list_scheduler.hpp"
#include "simulator/engine/memory.hpp"
#include "simulator/engine/simulate.hpp"

namespace penstock {

namespace {

/// I directly before its W is a whole B, where that is no slower.
Program merged(Program program, const Costs& costs) {
  for (std::vector<Action>& actions : program.ranks) {
    size_t kept = 0;
    for (const Action& action : actions) {
      if (kept > 0 && action.kind == Kind::backward_weight) {
        Action& before = actions[kept - 1];
        const StageCosts& stage = costs.stages[static_cast<size_t>(action.stage)];
        const bool pair = before.kind == Kind::backward_input && before.stage == action.stage &&
                          before.microbatch == action.microbatch;
        if (pair && stage.backward_s <= stage.backward_input_s + stage.backward_weight_s) {
          before.kind = Kind::backward;
          continue;
        }
      }
      actions[kept++] = action;
    }
    actions.resize(kept);
  }
  return program;
}

class Choice {
 public:
  explicit Choice(const AdaptiveProblem& problem) : problem_(problem) {}

  void offer(Program program) {
    const Simulation run =
        simulate_compute(program, problem_.flows, problem_.costs, problem_.network, {false, false});
    const int64_t fullest = fullest_bytes(program, run);
    min_bytes_ = std::min(min_bytes_, fullest);
    if (fullest > problem_.memory.max_bytes) return;
    if (best_ && run.makespan_s >= best_s_) return;
    best_s_ = run.makespan_s;
    best_ = std::move(program);
  }

  std::optional<Program> take() { return std::move(best_); }

  /// Missing to the program that needs least.
  int64_t missing_bytes() const { return min_bytes_ - problem_.memory.max_bytes; }

 private:
  /// With messages, where memory is limited and a faster program is at stake.
  int64_t fullest_bytes(const Program& program, const Simulation& run) const {
    const int64_t without = problem_.memory.fullest(run.peak_memory_bytes);
    const bool decided = problem_.memory.max_bytes == INT64_MAX ||
                         without > problem_.memory.max_bytes ||
                         (best_ && run.makespan_s >= best_s_);
    if (decided) return without;
    std::vector<int64_t> peaks;
    for (const RankMemory& memory : memory_of_ranks(lower(program, problem_.flows), problem_.costs))
      peaks.push_back(memory.peak_bytes);
    return problem_.memory.fullest(peaks);
  }

  const AdaptiveProblem& problem_;
  std::optional<Program> best_;
  double best_s_ = 0;
  int64_t min_bytes_ = INT64_MAX;
};

/// Named schedules that run these stages on these ranks.
void offer_named(const AdaptiveProblem& problem, Choice& choice) {
  const int stages = static_cast<int>(problem.rank_of_stage.size());
  if (stages % problem.ranks != 0) return;
  const ScheduleShape shape{problem.ranks, stages / problem.ranks, problem.microbatches};
  for (const Schedule& schedule : schedules()) {
    if (schedule.refusal(shape)) continue;
    Program program = schedule.generate(shape);
    if (program.rank_of_stage == problem.rank_of_stage) choice.offer(std::move(program));
  }
}

Choice choose(const AdaptiveProblem& problem) {
  Choice choice(problem);
  offer_named(problem, choice);
  using Order = ListRule::Order;
  for (const Order order :
       {Order::input_forward_weight, Order::input_weight_forward, Order::forward_input_weight}) {
    for (const double ahead : {0.0, 1.0, 1.5, 2.0}) {
      for (const bool deepest_first : {true, false}) {
        auto program = list_schedule(problem, {order, deepest_first, ahead});
        if (program) choice.offer(merged(std::move(*program), problem.costs));
      }
    }
  }
  return choice;
}

}  // namespace

AdaptiveProblem adaptive_problem(const Plan& plan, std::vector<Flow> flows, Costs costs,
                                 Network network, MemoryLimit memory) {
  AdaptiveProblem problem{.ranks = plan.ranks(),
                          .microbatches = static_cast<int>(plan.microbatches),
                          .flows = std::move(flows),
                          .costs = std::move(costs),
                          .network = std::move(network),
                          .memory = std::move(memory)};
  for (const StagePlan& stage : plan.stages) problem.rank_of_stage.push_back(stage.rank);
  return problem;
}

std::optional<Program> find_adaptive(const AdaptiveProblem& problem) {
  return choose(problem).take();
}

Program adaptive(const AdaptiveProblem& problem) {
  Choice choice = choose(problem);
  if (auto program = choice.take()) return std::move(*program);
  throw InputError("schedule adaptive",
                   fmt::format("nothing fits into {} per rank: the best needs {} too much",
                               format(problem.memory), format_bytes(choice.missing_bytes())),
                   "Give more memory, or use smaller microbatches, more ranks or recompute.");
}

}  // namespace penstock
