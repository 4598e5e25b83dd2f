#include "simulator/adaptive/list_scheduler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "pipeline/program/flow_table.hpp"
#include "simulator/adaptive/stage_links.hpp"
#include "simulator/adaptive/work_left.hpp"

namespace penstock {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

class ListScheduler {
 public:
  ListScheduler(const AdaptiveProblem& problem, const ListRule& rule)
      : problem_(problem),
        rule_(rule),
        flows_(problem.flows, problem.rank_of_stage),
        left_(problem),
        stages_(problem.rank_of_stage.size()),
        ranks_(static_cast<size_t>(problem.ranks)) {
    program_.rank_of_stage = problem.rank_of_stage;
    program_.microbatches = problem.microbatches;
    program_.ranks.resize(ranks_.size());
    const auto microbatches = static_cast<size_t>(problem.microbatches);
    for (size_t stage = 0; stage < stages_.size(); ++stage) {
      auto& arrivals = stages_[stage];
      arrivals.activation_s.assign(microbatches, 0);
      arrivals.gradient_s.assign(microbatches, 0);
      arrivals.activations_missing.assign(microbatches, inputs(static_cast<int>(stage)));
      arrivals.gradients_missing.assign(microbatches, gradients(static_cast<int>(stage)));
      if (whole_is_no_slower(problem.costs.stages[stage]))
        arrivals.whole = arrivals.weights = std::min(rule.whole, problem.microbatches);
      Rank& rank = ranks_[static_cast<size_t>(problem.rank_of_stage[stage])];
      rank.stages.push_back(static_cast<int>(stage));
      const StageCosts& costs = problem.costs.stages[stage];
      rank.held_bytes += costs.fixed_bytes + costs.snapshot_bytes;
    }
    for (int rank = 0; rank < problem.ranks; ++rank) {
      ranks_[static_cast<size_t>(rank)].limit_bytes = problem.memory.of(rank);
    }
    for (const FlowBytes& flow : problem.costs.flows) {  // as many as are posted ahead
      const int from = problem.rank_of_stage[static_cast<size_t>(flow.from)];
      const int to = problem.rank_of_stage[static_cast<size_t>(flow.to)];
      if (from == to) continue;
      const int64_t depth = problem.costs.receive_depth;
      ranks_[static_cast<size_t>(to)].held_bytes += depth * flow.forward_bytes;
      ranks_[static_cast<size_t>(from)].held_bytes += depth * flow.backward_bytes;
    }
  }

  std::optional<Program> run() {
    for (int rank = 0; rank < problem_.ranks; ++rank) offer(rank);
    while (!queue_.empty()) {
      const auto [start_s, rank] = *queue_.begin();
      queue_.erase(queue_.begin());
      take(rank, ranks_[static_cast<size_t>(rank)].choice, start_s);
      offer(rank);
    }
    const size_t wanted = 3 * stages_.size() * static_cast<size_t>(problem_.microbatches);
    return taken_ == wanted ? std::optional(std::move(program_)) : std::nullopt;
  }

 private:
  struct StageState {
    // Done so far, each in order of microbatches; a whole backward is an input and a weight.
    int forwards = 0, inputs = 0, weights = 0;
    int whole = 0;  // microbatches whose backwards are whole, the first so many
    std::vector<double> activation_s, gradient_s;  // when all that came so far was there
    std::vector<int> activations_missing, gradients_missing;
  };
  struct Rank {
    int64_t limit_bytes = INT64_MAX;
    std::vector<int> stages;
    double free_s = 0;
    int64_t held_bytes = 0;
    int ahead = 0;  // forwards without their I
    Action choice;
    double choice_s = never;  // in the queue with this start
  };

  StageState& state(int stage) { return stages_[static_cast<size_t>(stage)]; }
  const StageState& state(int stage) const { return stages_[static_cast<size_t>(stage)]; }
  const StageCosts& costs(int stage) const {
    return problem_.costs.stages[static_cast<size_t>(stage)];
  }
  int rank_of(int stage) const { return problem_.rank_of_stage[static_cast<size_t>(stage)]; }
  int inputs(int stage) const { return static_cast<int>(flows_.into(stage).size()); }
  int gradients(int stage) const {
    return static_cast<int>(std::ranges::count_if(flows_.out_of(stage),
                                                  [&](int flow) { return flows_[flow].gradient; }));
  }

  /// When the action could start: `never` where it is not known yet or not allowed.
  double start_s(const Rank& rank, int stage, Kind kind) {
    const StageState& at = state(stage);
    if (kind == Kind::backward_weight) return at.weights < at.inputs ? rank.free_s : never;
    const int m = kind == Kind::forward ? at.forwards : at.inputs;
    if (m == problem_.microbatches) return never;
    const auto cell = static_cast<size_t>(m);
    if (kind == Kind::forward) {
      const bool waits = at.activations_missing[cell] > 0 || !may_run_ahead(rank, stage);
      return waits ? never : std::max(rank.free_s, at.activation_s[cell]);
    }
    const bool waits =
        at.gradients_missing[cell] > 0 || at.forwards <= m || !fits_backward(rank, stage, m);
    return waits ? never : std::max(rank.free_s, at.gradient_s[cell]);
  }

  bool may_run_ahead(const Rank& rank, int stage) const {
    const StageCosts& cost = costs(stage);
    const int64_t needed = rank.held_bytes + cost.saved_bytes +
                           std::max({cost.transient_forward_bytes, cost.transient_input_bytes,
                                     cost.saved_weight_bytes - cost.saved_bytes,
                                     state(stage).whole > 0 ? cost.transient_backward_bytes : 0});
    if (needed > rank.limit_bytes) return false;
    if (rule_.ahead <= 0) return true;
    const auto left = static_cast<double>(stages_.size()) - rank.stages.front();
    return rank.ahead < std::ceil(rule_.ahead * left);
  }

  /// Without W the memory of I may have to wait.
  bool fits_backward(const Rank& rank, int stage, int microbatch) const {
    const StageCosts& cost = costs(stage);
    if (microbatch < state(stage).whole)
      return rank.held_bytes + cost.transient_backward_bytes <= rank.limit_bytes;
    const int64_t after = rank.held_bytes + cost.saved_weight_bytes - cost.saved_bytes;
    const int64_t needed = std::max(rank.held_bytes + cost.transient_input_bytes, after);
    return needed <= rank.limit_bytes;
  }

  /// The least is taken, of actions that could start at once.
  double preference(const Action& action) const {
    if (rule_.order == ListRule::Order::most_left)
      return action.kind == Kind::backward_weight ? 0 : -left_.seconds(action);
    static constexpr Kind orders[3][3] = {
        {Kind::backward_input, Kind::forward, Kind::backward_weight},
        {Kind::backward_input, Kind::backward_weight, Kind::forward},
        {Kind::forward, Kind::backward_input, Kind::backward_weight}};
    const auto& order = orders[static_cast<int>(rule_.order)];
    const Kind part = action.kind == Kind::backward ? Kind::backward_input : action.kind;
    return static_cast<double>(std::find(order, order + 3, part) - order);
  }

  /// Puts the rank into the queue with what it would do next.
  void offer(int id) {
    Rank& rank = ranks_[static_cast<size_t>(id)];
    if (rank.choice_s < never) queue_.erase({rank.choice_s, id});
    rank.choice_s = never;
    for (size_t i = 0; i < rank.stages.size(); ++i) {
      const int stage = rank.stages[rule_.deepest_first ? rank.stages.size() - 1 - i : i];
      for (const Kind kind : {Kind::forward, Kind::backward_input, Kind::backward_weight}) {
        const double start = start_s(rank, stage, kind);
        if (start > rank.choice_s || start == never) continue;
        const Action action = next(stage, kind);
        const bool better = start < rank.choice_s || preference(action) < preference(rank.choice);
        if (!better) continue;
        rank.choice_s = start;
        rank.choice = action;
      }
    }
    if (rank.choice_s < never) queue_.insert({rank.choice_s, id});
  }

  /// The stage's next F, W, or I; in its place B where that is whole.
  Action next(int stage, Kind kind) {
    const StageState& at = state(stage);
    if (kind == Kind::forward) return {stage, kind, at.forwards};
    if (kind == Kind::backward_weight) return {stage, kind, at.weights};
    return {stage, at.inputs < at.whole ? Kind::backward : kind, at.inputs};
  }

  void take(int id, const Action& action, double start_s) {
    Rank& rank = ranks_[static_cast<size_t>(id)];
    rank.choice_s = never;
    rank.free_s = start_s + problem_.costs.duration_s(action);
    program_.ranks[static_cast<size_t>(id)].push_back(action);
    ++taken_;
    StageState& at = state(action.stage);
    const StageCosts& cost = costs(action.stage);
    if (action.kind == Kind::forward) {
      ++at.forwards;
      ++rank.ahead;
      rank.held_bytes += cost.saved_bytes;
      for (const int flow : flows_.out_of(action.stage)) send(action, flows_[flow].to, rank.free_s);
    } else if (is_input_backward(action.kind)) {
      const bool whole = action.kind == Kind::backward;
      ++at.inputs;
      taken_ += whole ? 1 : 0;  // W with it
      --rank.ahead;
      rank.held_bytes += (whole ? 0 : cost.saved_weight_bytes) - cost.saved_bytes;
      for (const int flow : flows_.into(action.stage)) {
        if (flows_[flow].gradient) send(action, flows_[flow].from, rank.free_s);
      }
    } else {
      ++at.weights;
      rank.held_bytes -= cost.saved_weight_bytes;
    }
  }

  void send(const Action& from, int to, double sent_s) {
    const bool forward = from.kind == Kind::forward;
    const double arrival_s = sent_s + transfer_s(problem_, from.stage, to);
    StageState& at = state(to);
    const auto cell = static_cast<size_t>(from.microbatch);
    double& there_s = (forward ? at.activation_s : at.gradient_s)[cell];
    there_s = std::max(there_s, arrival_s);
    --(forward ? at.activations_missing : at.gradients_missing)[cell];
    if (rank_of(to) != rank_of(from.stage)) offer(rank_of(to));
  }

  const AdaptiveProblem& problem_;
  const ListRule rule_;
  const FlowTable flows_;
  const WorkLeft left_;
  std::vector<StageState> stages_;
  std::vector<Rank> ranks_;
  std::set<std::pair<double, int>> queue_;  // start of its choice, rank: ties go to the lower rank
  Program program_;
  size_t taken_ = 0;
};

}  // namespace

bool whole_is_no_slower(const StageCosts& stage) {
  return stage.backward_s <= stage.backward_input_s + stage.backward_weight_s;
}

std::optional<Program> list_schedule(const AdaptiveProblem& problem, const ListRule& rule) {
  return ListScheduler(problem, rule).run();
}

}  // namespace penstock
