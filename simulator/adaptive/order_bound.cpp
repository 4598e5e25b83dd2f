#include "simulator/adaptive/order_bound.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "simulator/adaptive/machine.hpp"
#include "simulator/adaptive/order_heads.hpp"

namespace penstock {

namespace {

/// Seconds of a stage's actions, of whatever microbatch takes least, and what all of them take
/// beside. A backward is an I and a W, together the faster form.
struct Least {
  double forward_s, input_s, weight_s;
  double more_forward_s, more_backward_s;
  double extra;  // by which I and W take longer than B, for each second of W

  Least(const OrderTimes& of, int microbatches) {
    const double parts_s = of.input_s + of.weight_s;
    const double backward_s = std::min(of.backward_s, parts_s);
    const double input_all_s = std::min(of.backward_s, of.input_s);
    const double once_s = input_all_s + std::min(0.0, of.first_backward_s);
    forward_s = std::max(0.0, of.forward_s + std::min(0.0, of.first_forward_s));
    input_s = std::max(0.0, once_s);
    weight_s = std::max(0.0, backward_s - input_all_s + std::min(0.0, once_s));
    const auto more_s = [&](double each_s, double first_s, double least_s) {
      return std::max(0.0, microbatches * (each_s - least_s) + first_s);
    };
    more_forward_s = more_s(of.forward_s, of.first_forward_s, forward_s);
    more_backward_s = more_s(backward_s, of.first_backward_s, input_s + weight_s);
    extra = of.weight_s > 0 ? (parts_s - of.backward_s) / of.weight_s : 0;
  }
};

class OrderBound {
 public:
  explicit OrderBound(const OrderProblem& problem)
      : problem_(problem), stages_(problem.stages.size()) {
    for (const OrderTimes& of : problem.stages) least_.emplace_back(of, problem.microbatches);
    find_heads();
    find_tails();
  }

  double run() const {
    double longest_s = 0;
    for (int rank = 0; rank < problem_.ranks; ++rank) longest_s = std::max(longest_s, rank_s(rank));
    return longest_s;
  }

 private:
  using Rows = std::vector<std::vector<double>>;  // by stage, then by number

  /// F from the first stage on, then I from the last one on.
  size_t input_row(size_t stage) const { return 2 * stages_ - 1 - stage; }

  std::vector<ActionRow> rows() const {
    std::vector<ActionRow> rows(2 * stages_);
    for (size_t stage = 0; stage < stages_; ++stage) {
      const Least& of = least_[stage];
      const int rank = problem_.rank_of_stage[stage];
      rows[stage] = {.rank = rank, .seconds = of.forward_s, .more_s = of.more_forward_s};
      rows[stage].before = problem_.links.forward[stage];
      ActionRow& input = rows[input_row(stage)];
      input = {.rank = rank, .seconds = of.input_s, .more_s = of.more_backward_s};
      input.before.push_back({static_cast<int>(stage), 0});
      for (const auto& [from, transfer_s] : problem_.links.backward[stage])
        input.before.push_back(
            {static_cast<int>(input_row(static_cast<size_t>(from))), transfer_s});
    }
    return rows;
  }

  void find_heads() {
    OrderHeads found = order_heads(rows(), problem_.ranks, problem_.microbatches);
    for (size_t stage = 0; stage < stages_; ++stage) {
      forward_head_.push_back(std::move(found.heads_s[stage]));
      input_head_.push_back(std::move(found.heads_s[input_row(stage)]));
    }
  }

  /// From the end on, where the W of an I comes before it.
  void find_tails() {
    const std::vector<ActionRow> forth = rows();
    std::vector<ActionRow> back(forth.size());
    const auto mirrored = [&](size_t row) { return forth.size() - 1 - row; };
    for (size_t row = 0; row < forth.size(); ++row) {
      ActionRow& of = back[mirrored(row)];
      of.rank = forth[row].rank;
      of.seconds = forth[row].seconds;
      of.more_s = forth[row].more_s;
      for (const auto& [from, transfer_s] : forth[row].before)
        back[mirrored(static_cast<size_t>(from))].before.push_back(
            {static_cast<int>(mirrored(row)), transfer_s});
    }
    for (size_t stage = 0; stage < stages_; ++stage)
      back[mirrored(input_row(stage))].own_s = least_[stage].weight_s;
    OrderHeads found = order_heads(back, problem_.ranks, problem_.microbatches);
    for (size_t stage = 0; stage < stages_; ++stage) {
      forward_tail_.push_back(std::move(found.heads_s[mirrored(stage)]));
      input_tail_.push_back(std::move(found.heads_s[mirrored(input_row(stage))]));
      passed_on_.push_back(std::move(found.bare_s[mirrored(input_row(stage))]));
    }
  }

  /// The k-th from the beginning is the last but k from the end.
  double tail_s(const Rows& tails, size_t stage, int number) const {
    return tails[stage][static_cast<size_t>(problem_.microbatches - 1 - number)];
  }

  struct RankWork {
    std::vector<MachineWork> parts, whole;  // with I and W, and with B where that is no slower
    double extra = 1;
  };

  void add(size_t stage, RankWork& work) const {
    const Least& of = least_[stage];
    const int last = problem_.microbatches - 1;
    const auto add_both = [&](const MachineWork& each) {
      work.parts.push_back(each);
      work.whole.push_back(each);
    };
    for (int number = 0; number <= last; ++number) {
      const double forward_s = forward_head_[stage][static_cast<size_t>(number)];
      const double input_s = input_head_[stage][static_cast<size_t>(number)];
      add_both({forward_s, of.forward_s, tail_s(forward_tail_, stage, number)});
      const MachineWork weight{input_s + of.input_s, of.weight_s, 0};
      work.parts.push_back({input_s, of.input_s, tail_s(input_tail_, stage, number)});
      work.parts.push_back(weight);
      const double passed_on_s = tail_s(passed_on_, stage, number);
      const bool whole = of.extra >= 0;
      work.whole.push_back({input_s, of.input_s + (whole ? of.weight_s : 0), passed_on_s});
      if (!whole) work.whole.push_back(weight);
    }
    add_both({forward_head_[stage][0], of.more_forward_s, tail_s(forward_tail_, stage, last)});
    add_both({input_head_[stage][0], of.more_backward_s, tail_s(passed_on_, stage, last)});
    work.extra = std::min(work.extra, std::max(0.0, of.extra));
  }

  /// All of its F, none as if it began later than an I could, and then all else.
  double filled_s(const std::vector<size_t>& own) const {
    double from_s = std::numeric_limits<double>::infinity(), rest_s = 0;
    for (const size_t stage : own) from_s = std::min(from_s, input_head_[stage][0]);
    std::vector<MachineWork> forwards;
    for (const size_t stage : own) {
      const Least& of = least_[stage];
      for (const double head_s : forward_head_[stage])
        forwards.push_back({std::min(head_s, from_s), of.forward_s});
      forwards.push_back({std::min(forward_head_[stage][0], from_s), of.more_forward_s});
      rest_s += problem_.microbatches * (of.input_s + of.weight_s) + of.more_backward_s;
    }
    return done_s(std::move(forwards)) + rest_s;
  }

  /// With whole backwards it would take until `whole_s`. Each second of W that is run apart makes
  /// that less by 1 - extra, and all work of the rank more by extra.
  double rank_s(int rank) const {
    std::vector<size_t> own;
    for (size_t stage = 0; stage < stages_; ++stage)
      if (problem_.rank_of_stage[stage] == rank) own.push_back(stage);
    if (own.empty()) return 0;
    RankWork work;
    for (const size_t stage : own) add(stage, work);
    const double filled_s = this->filled_s(own);
    const double longer_s = std::max(0.0, delivered_s(std::move(work.whole)) - filled_s);
    return std::max(delivered_s(std::move(work.parts)), filled_s + work.extra * longer_s);
  }

  const OrderProblem& problem_;
  const size_t stages_;
  std::vector<Least> least_;
  Rows forward_head_, input_head_;
  Rows forward_tail_, input_tail_;  // what follows at the least
  Rows passed_on_;                  // what follows an I beside its own W
};

}  // namespace

double min_makespan_s(const OrderProblem& problem) { return OrderBound(problem).run(); }

double min_makespan_s(const AdaptiveProblem& problem, const StageLinks& links) {
  OrderProblem order{problem.ranks, problem.microbatches, problem.rank_of_stage, {}, links};
  for (const StageCosts& of : problem.costs.stages)
    order.stages.push_back({of.forward_s, of.backward_s, of.backward_input_s, of.backward_weight_s,
                            of.first_forward_s, of.first_backward_s});
  return min_makespan_s(order);
}

}  // namespace penstock
