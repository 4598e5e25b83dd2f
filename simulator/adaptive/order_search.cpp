#include "simulator/adaptive/order_search.hpp"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

namespace penstock {

namespace {

/// Places that an action moves by, at most.
constexpr size_t most_places = 6;
/// One of so many changes to a B or W changes how the backward runs.
constexpr size_t form_every = 3;

class OrderSearch {
 public:
  OrderSearch(const AdaptiveProblem& problem, const StageLinks& links, const Program& compute)
      : problem_(problem),
        links_(links),
        program_(apart(compute)),
        next_(compute.ranks.size()),
        now_s_(compute.ranks.size()),
        forward_end_s_(compute.rank_of_stage.size() * static_cast<size_t>(compute.microbatches)),
        backward_end_s_(forward_end_s_.size()) {
    for (int rank = 0; rank < problem.ranks; ++rank) {
      fixed_bytes_.push_back(fixed_bytes(rank));
      max_bytes_.push_back(std::max(problem.memory.of(rank), peak_bytes(rank)));
    }
    judged_ = judge();
  }

  double makespan_s() const { return judged_.makespan_s; }

  Reordered run(int64_t tries, double enough_s) {
    for (; tries > 0 && judged_.makespan_s > enough_s; --tries) {
      const size_t rank = random_() % program_.ranks.size();
      std::vector<Action>& actions = program_.ranks[rank];
      if (actions.empty()) continue;
      before_ = actions;
      if (!change(actions) || !keep(static_cast<int>(rank))) std::swap(actions, before_);
    }
    return {std::move(program_), judged_actions_};
  }

 private:
  struct Judged {
    double makespan_s = std::numeric_limits<double>::infinity();
    double ends_s = std::numeric_limits<double>::infinity();  // of all ranks
    auto operator<=>(const Judged&) const = default;
  };

  size_t cell(int stage, int microbatch) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(program_.microbatches) +
           static_cast<size_t>(microbatch);
  }

  /// Overlaps as their parts, one after the other.
  static Program apart(Program compute) {
    for (std::vector<Action>& actions : compute.ranks) {
      const std::vector<Action> together = std::exchange(actions, {});
      for (const Action& action : together)
        for_each_part(action, [&](const Action& part) { actions.push_back(part); });
    }
    return compute;
  }

  bool keep(int rank) {
    const Judged judged = judge();
    if (judged > judged_) return false;
    const bool limited = problem_.memory.any();
    if (limited && peak_bytes(rank) > max_bytes_[static_cast<size_t>(rank)]) return false;
    judged_ = judged;
    return true;
  }

  /// False where it changes nothing.
  bool change(std::vector<Action>& actions) {
    const size_t at = random_() % actions.size();
    const bool other_form = random_() % form_every == 0;
    if (other_form && actions[at].kind == Kind::backward) {
      divide(actions, at);
      return true;
    }
    if (other_form && actions[at].kind == Kind::backward_weight) return join(actions, at);
    return move(actions, at);
  }

  bool move(std::vector<Action>& actions, size_t at) {
    const size_t by = 1 + random_() % most_places;
    const bool later = random_() % 2 == 0;
    const size_t to = later ? std::min(actions.size() - 1, at + by) : at - std::min(at, by);
    const auto begin = actions.begin();
    const auto from = static_cast<std::ptrdiff_t>(at), place = static_cast<std::ptrdiff_t>(to);
    if (place > from) std::rotate(begin + from, begin + from + 1, begin + place + 1);
    if (place < from) std::rotate(begin + place, begin + from, begin + from + 1);
    return place != from;
  }

  /// B becomes I, and W somewhere behind.
  void divide(std::vector<Action>& actions, size_t at) {
    actions[at].kind = Kind::backward_input;
    Action weight = actions[at];
    weight.kind = Kind::backward_weight;
    const size_t place = at + 1 + random_() % (actions.size() - at);
    actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(place), weight);
  }

  /// I and W become B where one of them is.
  bool join(std::vector<Action>& actions, size_t at) {
    Action input = actions[at];
    input.kind = Kind::backward_input;
    const auto found = std::ranges::find(actions, input);
    if (found == actions.end()) return false;
    const bool early = random_() % 2 == 0;
    const auto weight = actions.begin() + static_cast<std::ptrdiff_t>(at);
    (early ? found : weight)->kind = Kind::backward;
    actions.erase(early ? weight : found);
    return true;
  }

  /// When the action could start on a rank that is free then; below 0: not yet.
  double start_s(const Action& action, double now_s) const {
    const size_t own = cell(action.stage, action.microbatch);
    if (action.kind == Kind::backward_weight) return backward_end_s_[own] < 0 ? -1 : now_s;
    const bool forward = action.kind == Kind::forward;
    if (!forward && forward_end_s_[own] < 0) return -1;
    const std::vector<double>& ends_s = forward ? forward_end_s_ : backward_end_s_;
    const auto& links = forward ? links_.forward : links_.backward;
    for (const auto& [stage, transfer_s] : links[static_cast<size_t>(action.stage)]) {
      const double end_s = ends_s[cell(stage, action.microbatch)];
      if (end_s < 0) return -1;
      now_s = std::max(now_s, end_s + transfer_s);
    }
    return now_s;
  }

  Judged judge() {
    std::ranges::fill(next_, 0);
    std::ranges::fill(now_s_, 0);
    std::ranges::fill(forward_end_s_, -1);
    std::ranges::fill(backward_end_s_, -1);
    size_t done = 0;
    for (bool moved = true; std::exchange(moved, false);) {
      for (size_t rank = 0; rank < next_.size(); ++rank) {
        const size_t before = next_[rank];
        advance(rank);
        done += next_[rank] - before;
        moved = moved || next_[rank] > before;
      }
    }
    judged_actions_ += static_cast<int64_t>(done);
    if (done < static_cast<size_t>(program_.action_count())) return {};
    Judged judged{0, 0};
    for (const double end_s : now_s_) {
      judged.makespan_s = std::max(judged.makespan_s, end_s);
      judged.ends_s += end_s;
    }
    return judged;
  }

  void advance(size_t rank) {
    const std::vector<Action>& actions = program_.ranks[rank];
    for (size_t& next = next_[rank]; next < actions.size(); ++next) {
      const Action& action = actions[next];
      const double at_s = start_s(action, now_s_[rank]);
      if (at_s < 0) return;
      now_s_[rank] = at_s + problem_.costs.duration_s(action);
      if (action.kind == Kind::backward_weight) continue;
      const bool forward = action.kind == Kind::forward;
      (forward ? forward_end_s_ : backward_end_s_)[cell(action.stage, action.microbatch)] =
          now_s_[rank];
    }
  }

  int64_t fixed_bytes(int rank) const {
    int64_t bytes = 0;
    for (size_t stage = 0; stage < problem_.rank_of_stage.size(); ++stage) {
      const StageCosts& of = problem_.costs.stages[stage];
      if (problem_.rank_of_stage[stage] == rank) bytes += of.fixed_bytes + of.snapshot_bytes;
    }
    return bytes;
  }

  /// Without messages.
  int64_t peak_bytes(int rank) const {
    int64_t now = fixed_bytes_[static_cast<size_t>(rank)], peak = now;
    const auto take = [&](int64_t first, int64_t meanwhile, int64_t last) {
      peak = std::max(peak, now + first + meanwhile);
      now += first + last;
    };
    for (const Action& action : program_.ranks[static_cast<size_t>(rank)]) {
      const StageCosts& of = problem_.costs.stages[static_cast<size_t>(action.stage)];
      switch (action.kind) {
        case Kind::forward: take(of.saved_bytes, of.transient_forward_bytes, 0); break;
        case Kind::backward: take(0, of.transient_backward_bytes, -of.saved_bytes); break;
        case Kind::backward_input:
          take(0, of.transient_input_bytes, of.saved_weight_bytes - of.saved_bytes);
          break;
        case Kind::backward_weight:
          take(0, of.transient_weight_bytes, -of.saved_weight_bytes);
          break;
        default: break;
      }
    }
    return peak;
  }

  const AdaptiveProblem& problem_;
  const StageLinks& links_;
  Program program_;
  std::vector<Action> before_;
  Judged judged_;
  int64_t judged_actions_ = 0;
  std::vector<int64_t> fixed_bytes_, max_bytes_;  // by rank
  std::mt19937 random_;
  // While a program is judged: by rank, and by stage and microbatch; below 0: not yet.
  std::vector<size_t> next_;
  std::vector<double> now_s_, forward_end_s_, backward_end_s_;
};

}  // namespace

double alone_s(const AdaptiveProblem& problem, const StageLinks& links, const Program& compute) {
  return OrderSearch(problem, links, compute).makespan_s();
}

Reordered reordered(const AdaptiveProblem& problem, const StageLinks& links, const Program& compute,
                    int64_t tries, double enough_s) {
  return OrderSearch(problem, links, compute).run(tries, enough_s);
}

}  // namespace penstock
