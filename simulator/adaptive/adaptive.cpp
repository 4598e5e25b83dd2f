#include "simulator/adaptive/adaptive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "pipeline/program/schedule.hpp"
#include "simulator/adaptive/list_scheduler.hpp"
#include "simulator/adaptive/order_bound.hpp"
#include "simulator/adaptive/order_search.hpp"
#include "simulator/engine/memory.hpp"
#include "simulator/engine/simulate.hpp"

namespace penstock {

namespace {

/// The fastest programs, each of which is then reordered: by so many tries at most, and as many as
/// so many actions are judged for.
constexpr size_t kept_programs = 4;
constexpr int64_t reordered_actions = 300'000, most_tries = 2000;
/// A try takes as long as so many of its actions are simulated in; lowering them, so often.
constexpr int64_t tried_per_simulated = 16, simulated_per_lowered = 3;
/// Pairs of a rank's actions that are looked at for a bound in the time in which one is simulated.
constexpr int64_t pairs_per_simulated = 32;
/// Rules are followed until so many actions might have been simulated, where one has fitted.
constexpr int64_t listed_actions = 5'000'000;
/// So often the cap is tightened where nothing fits.
constexpr int most_tightened = 3;
/// Sums of the same times in another order differ by less.
constexpr double rounding = 1e-12;

/// I directly before its W is a whole B, where that is no slower.
Program merged(Program program, const Costs& costs) {
  for (std::vector<Action>& actions : program.ranks) {
    size_t kept = 0;
    for (const Action& action : actions) {
      if (kept > 0 && action.kind == Kind::backward_weight) {
        Action& before = actions[kept - 1];
        const bool no_slower = whole_is_no_slower(costs.stages[static_cast<size_t>(action.stage)]);
        const bool pair = before.kind == Kind::backward_input && before.stage == action.stage &&
                          before.microbatch == action.microbatch;
        if (pair && no_slower) {
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

/// F, I and W of all stages.
int64_t most_actions(const AdaptiveProblem& problem) {
  return int64_t{3} * problem.microbatches * static_cast<int64_t>(problem.rank_of_stage.size());
}

/// That could be simulated in the time that min_makespan_s() takes.
int64_t actions_of_bound(const AdaptiveProblem& problem) {
  return most_actions(problem) * (most_actions(problem) / problem.ranks) / pairs_per_simulated;
}

class Choice {
 public:
  explicit Choice(const AdaptiveProblem& problem)
      : problem_(problem),
        links_(problem),
        enough_s_(min_makespan_s(problem, links_) * (1 + rounding)),
        actions_(actions_of_bound(problem)) {}

  const StageLinks& links() const { return links_; }
  /// No order is faster than that.
  double enough_s() const { return enough_s_; }
  bool is_done() const { return !best_.empty() && best_.front().makespan_s <= enough_s_; }
  bool took_long() const {
    return !best_.empty() && actions_ > actions_of_bound(problem_) + listed_actions;
  }
  /// As many as were simulated, or might have been in the time that it took.
  int64_t actions() const { return actions_; }
  void count(int64_t actions) { actions_ += actions; }

  void offer(Program program) {
    if (is_full() && alone_s(problem_, links_, program) >= best_.back().makespan_s) return;
    count(program.action_count());
    const Simulation run =
        simulate_compute(program, problem_.flows, problem_.costs, problem_.network, {false, false});
    if (!counts(run.makespan_s)) return;
    const int64_t fullest = fullest_bytes(program, run);
    min_bytes_ = std::min(min_bytes_, fullest);
    if (fullest > problem_.memory.max_bytes) return;
    const auto behind = std::ranges::upper_bound(best_, run.makespan_s, {}, &Offer::makespan_s);
    best_.insert(behind, {run.makespan_s, std::move(program)});
    if (best_.size() > kept_programs) best_.pop_back();
  }

  struct Offer {
    double makespan_s;
    Program program;
  };
  /// The fastest that fit, of those as fast the first.
  const std::vector<Offer>& best() const { return best_; }

  /// How much the program that needs least lacks, where none fits; nothing where there was none.
  std::optional<int64_t> missing_bytes() const {
    if (min_bytes_ == INT64_MAX) return std::nullopt;
    return min_bytes_ - problem_.memory.max_bytes;
  }

 private:
  bool is_full() const { return best_.size() == kept_programs; }

  /// Is it among the fastest, and none of them as fast?
  bool counts(double makespan_s) const {
    if (is_full() && makespan_s >= best_.back().makespan_s) return false;
    return std::ranges::find(best_, makespan_s, &Offer::makespan_s) == best_.end();
  }

  /// With messages, where memory is limited and it would fit without.
  int64_t fullest_bytes(const Program& program, const Simulation& run) {
    const int64_t without = problem_.memory.fullest(run.peak_memory_bytes);
    if (!problem_.memory.any() || without > problem_.memory.max_bytes) return without;
    count(simulated_per_lowered * program.action_count());
    std::vector<int64_t> peaks;
    for (const RankMemory& memory : memory_of_ranks(lower(program, problem_.flows), problem_.costs))
      peaks.push_back(memory.peak_bytes);
    return problem_.memory.fullest(peaks);
  }

  const AdaptiveProblem& problem_;
  const StageLinks links_;
  const double enough_s_;
  int64_t actions_;
  std::vector<Offer> best_;
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

/// So many microbatches have whole backwards: none, or where those are faster all but the last,
/// whose W are to fill the end of a step.
std::vector<int> numbers_of_whole(const AdaptiveProblem& problem) {
  const bool faster = std::ranges::any_of(problem.costs.stages, [](const StageCosts& stage) {
    return stage.backward_s < stage.backward_input_s + stage.backward_weight_s;
  });
  if (!faster) return {0};
  const int all = problem.microbatches;
  std::vector<int> numbers;
  for (const int whole : {0, all / 2, all - 2, all - 1, all})
    if (whole >= 0 && std::ranges::find(numbers, whole) == numbers.end()) numbers.push_back(whole);
  return numbers;
}

void offer_listed(const AdaptiveProblem& problem, Choice& choice) {
  using Order = ListRule::Order;
  for (const int whole : numbers_of_whole(problem)) {
    for (const Order order : {Order::input_forward_weight, Order::input_weight_forward,
                              Order::forward_input_weight, Order::most_left}) {
      for (const double ahead : {0.0, 1.0, 1.5, 2.0}) {
        for (const bool deepest_first : {true, false}) {
          if (order == Order::most_left && !deepest_first) continue;  // only decides ties
          if (choice.is_done() || choice.took_long()) return;
          auto program = list_schedule(problem, {order, deepest_first, ahead, whole});
          choice.count(most_actions(problem));
          if (program) choice.offer(merged(std::move(*program), problem.costs));
        }
      }
    }
  }
}

/// Each of the fastest with its actions in a better order.
void offer_reordered(const AdaptiveProblem& problem, Choice& choice) {
  const int64_t tries = std::min(most_tries, reordered_actions / most_actions(problem));
  const std::vector<Choice::Offer> found = choice.best();
  for (const Choice::Offer& one : found) {
    if (choice.is_done()) return;
    Reordered better = reordered(problem, choice.links(), one.program, tries, choice.enough_s());
    choice.count(better.actions / tried_per_simulated);
    choice.offer(std::move(better.program));
  }
}

/// The list scheduler does not count all that messages hold: where that is too much it keeps to
/// less.
Choice choose(const AdaptiveProblem& problem) {
  Choice choice(problem);
  offer_named(problem, choice);
  offer_listed(problem, choice);
  AdaptiveProblem tighter = problem;
  for (int tries = 0; choice.best().empty() && tries < most_tightened; ++tries) {
    const std::optional<int64_t> missing = choice.missing_bytes();
    if (!missing) break;
    tighter.memory.max_bytes -= *missing;
    offer_listed(tighter, choice);
  }
  offer_reordered(problem, choice);
  return choice;
}

/// The stages whose gradients come from the last one, which is among them.
std::vector<bool> before_last(const AdaptiveProblem& problem) {
  std::vector<bool> before(problem.rank_of_stage.size(), false);
  before.back() = true;
  for (size_t stage = before.size(); stage-- > 0;) {
    for (const Flow& flow : problem.flows) {
      const bool here = flow.to == static_cast<int>(stage) && flow.gradient;
      if (here && before[stage]) before[static_cast<size_t>(flow.from)] = true;
    }
  }
  return before;
}

/// Does a rank hold too much in any order? When the first microbatch turns round, all stages on its
/// way keep it.
bool never_fits(const AdaptiveProblem& problem) {
  const std::vector<bool> kept = before_last(problem);
  std::vector<int64_t> bytes(static_cast<size_t>(problem.ranks), 0);
  for (size_t stage = 0; stage < kept.size(); ++stage) {
    const StageCosts& costs = problem.costs.stages[stage];
    bytes[static_cast<size_t>(problem.rank_of_stage[stage])] +=
        costs.fixed_bytes + costs.snapshot_bytes + (kept[stage] ? costs.saved_bytes : 0);
  }
  return problem.memory.fullest(bytes) > problem.memory.max_bytes;
}

std::optional<Program> fastest(const Choice& choice) {
  if (choice.best().empty()) return std::nullopt;
  return choice.best().front().program;
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

FoundAdaptive find_adaptive(const AdaptiveProblem& problem) {
  if (never_fits(problem)) return {};
  const Choice choice = choose(problem);
  return {fastest(choice), choice.actions()};
}

Program adaptive(const AdaptiveProblem& problem) {
  const Choice choice = choose(problem);
  if (auto program = fastest(choice)) return std::move(*program);
  const std::optional<int64_t> missing = choice.missing_bytes();
  const std::string least =
      missing ? fmt::format(": the best needs {} too much", format_bytes(*missing)) : "";
  throw InputError("schedule adaptive",
                   fmt::format("nothing fits into {} per rank{}", format(problem.memory), least),
                   "Give more memory, or use smaller microbatches, more ranks or recompute.");
}

}  // namespace penstock
