#include "planner/splits/candidate.hpp"

#include <algorithm>

namespace penstock {

namespace {

/// Nodes that a round opens at most.
constexpr int64_t round_nodes = 4096;
/// With more a space begins with the split that it proposes, and waits.
constexpr int64_t few_splits = 10'000;
constexpr int stages_per_effort = 16;

}  // namespace

/// A node is bounded, and told apart from others, stage by stage.
int64_t Candidate::node_effort() const {
  return 1 + opened_->splits().stages() / stages_per_effort;
}

bool Candidate::waits() const { return result.splits > few_splits; }

Candidate::Step Candidate::advance(const SplitRank* incumbent) {
  if (!result.opened) open();
  if (next_proposal_) {
    const std::vector<int> begins = opened_->proposal(*next_proposal_);
    if (!begins.empty()) return proposed(begins);
    next_proposal_.reset();
  }
  if (neighbours_) {
    Step step = climb();
    if (!step.begins.empty()) return step;
  }
  Step step;
  const int64_t end = effort + round_nodes;
  while (frontier_ && !frontier_->empty() && effort < end) {
    const int64_t before = frontier_->looked_at();
    step.bound_s = frontier_->bound_s();
    const auto begins = frontier_->step(incumbent);
    effort += (frontier_->looked_at() - before) * node_effort();
    if (!begins) continue;
    const double bound_s = step.bound_s;
    step = simulated(*begins);
    step.bound_s = bound_s;
    break;
  }
  return step;
}

Candidate::Step Candidate::simulated(const std::vector<int>& begins) {
  Step step{begins, 0, opened_->simulate(begins)};
  effort += step.outcome.effort;
  return step;
}

Candidate::Step Candidate::proposed(const std::vector<int>& begins) {
  Step step = simulated(begins);
  ++*next_proposal_;
  if (step.outcome.peak_bytes > order_.max_bytes) return step;
  next_proposal_.reset();
  neighbours_.emplace(begins, opened_->splits().units());
  reached_ = rank_of(step.outcome);
  return step;
}

/// Looks at the next neighbour, and goes on from it where it is better.
Candidate::Step Candidate::climb() {
  const auto begins = neighbours_->next();
  if (!begins) {
    neighbours_.reset();
    return {};
  }
  Step step = simulated(*begins);
  const bool fits = step.outcome.peak_bytes <= order_.max_bytes;
  if (!fits || rank_of(step.outcome) >= reached_) return step;
  reached_ = rank_of(step.outcome);
  neighbours_->move();
  return step;
}

std::optional<SplitRank> Candidate::climbing() const {
  return neighbours_ ? std::optional(reached_) : std::nullopt;
}

void Candidate::open() {
  result.opened = true;
  opened_ = space_.open();
  if (!opened_) return;
  const SplitSpace& splits = opened_->splits();
  result.bound_s = std::max(result.bound_s, splits.min_s());
  result.bytes = std::max(result.bytes, splits.min_bytes());
  result.splits = splits.splits();
  frontier_ = std::make_unique<Frontier>(splits, order_);
  if (waits()) next_proposal_ = 0;
}

}  // namespace penstock
