#include "planner/splits/candidate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/open/box_tree.hpp"
#include "planner/open/in_parallel.hpp"
#include "planner/paths/walk.hpp"

namespace penstock {

namespace {

/// Effort of a round of open splits, about.
constexpr int64_t round_effort = 4096;
/// With more a space begins with the split that it proposes; with still more it is followed by
/// boxes, or waits where it has no paths.
constexpr int64_t few_splits = 1000, many_splits = 10'000;
/// Splits of a space that are simulated before its paths are looked for.
constexpr int64_t few_simulated = 16;
/// Walks from the first split that fits, and the tries of each for a stage, so many at a time.
constexpr int walks = 4, tries_per_stage = 128, tries_at_a_time = 64;
/// Walks of a space mostly differ by a percent or two: one whose first come to splits that are so
/// much slower than the best of all takes no more.
constexpr int first_walks = 2;
constexpr double hopeless = 1.04;
/// Further annealings mostly make a step shorter by less than a percent.
constexpr double unlikely = 1.01;
/// Annealings at the same time, fixed, whatever the number of threads; the effort of each of the
/// first ones, how much of it at a time, and that of boxes before them; before later ones boxes
/// take so many times theirs.
constexpr size_t annealings_at_once = 4;
constexpr int64_t first_annealing = 500'000, annealing_at_a_time = 1 << 16, first_boxes = 2'000'000,
                  boxes_for_annealing = 16;
/// A split is looked at again, with four times the effort, unless the last look took more than one
/// part in so many of the search's.
constexpr int64_t settling_share = 16;
/// Relative: recompute that makes a step shorter by no more counts as no better.
constexpr double exact_within = 1e-8;
/// Effort of a bound, for each stage of its split.
constexpr int64_t stage_effort = 3;

}  // namespace

bool Candidate::has_many() const { return result.splits > many_splits; }

bool Candidate::waits() const { return has_many() && !next_proposal_ && !paths_ && !boxed_; }

SplitRank Candidate::top() const {
  if (!open_splits_) return order_.bound(space_.bound_s, space_.bytes);
  if (unsettled_.empty()) return open_splits_->top();
  const SplitRank settled = order_.bound(unsettled_.top().bound_s, result.bytes);
  return open_splits_->empty() ? settled : std::min(settled, open_splits_->top());
}

double Candidate::bound_s() const {
  if (!open_splits_) return space_.bound_s;
  double open_s = std::numeric_limits<double>::infinity();
  if (!open_splits_->empty()) open_s = open_splits_->bound_s();
  if (!unsettled_.empty()) open_s = std::min(open_s, unsettled_.top().bound_s);
  return std::max(open_s, space_.bound_s);
}

Candidate::Step Candidate::advance(const SplitRank* incumbent) {
  if (!begun_) open();
  if (incumbent && !closed() && top() > *incumbent) {
    close();
    return {};
  }
  if (next_proposal_) {
    const std::vector<int> begins = opened_->proposal(*next_proposal_);
    if (!begins.empty()) return proposed(begins, incumbent);
    next_proposal_.reset();
    if (!start_.empty() && order_.objective == SearchObjective::step)
      paths_ = opened_->paths(start_);  // none that was proposed fits
  }
  if (walks_left_ > 0) return walked(incumbent);
  if (neighbours_) {
    Step step = climb(incumbent);
    if (!step.begins.empty()) return step;
  }
  if (paths_ && has_many()) follow_boxes();
  return anneals(incumbent) ? annealed(incumbent) : followed(incumbent);
}

/// Looks at open splits, the best first.
Candidate::Step Candidate::followed(const SplitRank* incumbent) {
  if (!unsettled_.empty() &&
      (open_splits_->empty() || unsettled_.top().bound_s <= open_splits_->bound_s()))
    return settled(incumbent);
  Step step;
  const int64_t end = effort + round_effort;
  while (open_splits_ && !open_splits_->empty() && effort < end && !(boxed_ && stopped())) {
    const int64_t before = open_splits_->effort();
    step.bound_s = open_splits_->bound_s();
    const auto begins = open_splits_->step(incumbent);
    effort += open_splits_->effort() - before;
    boxes_effort_ += open_splits_->effort() - before;
    if (!begins || is_slower(*begins, incumbent)) continue;
    const double bound_s = step.bound_s;
    step = simulated(*begins, incumbent);
    step.bound_s = bound_s;
    if (!open_splits_->still_open()) settle(step, first_recompute);
    break;
  }
  return step;
}

/// Does the longest path of its program already take longer than the best step? Following it takes
/// a fraction of the time of a simulation.
bool Candidate::is_slower(const std::vector<int>& begins, const SplitRank* incumbent) {
  if (boxed_ || !incumbent || order_.objective != SearchObjective::step) return false;
  if (result.simulated < few_simulated) return false;
  if (!program_) {
    program_ = paths_ ? std::exchange(paths_, nullptr) : opened_->paths(begins);
    if (*program_) effort += (*program_)->actions();
  }
  if (!*program_) return false;
  effort += judged_by(**program_).effort;
  return (*program_)->split_s(begins) * (1 - bound_rounding) > order_.most_s(incumbent);
}

/// Takes a split that is no longer among the open ones for settled, unless other recompute may make
/// it faster.
void Candidate::settle(const Step& step, int64_t effort_of_recompute) {
  const SplitOutcome& found = step.outcome;
  if (found.slack_s <= exact_within * found.step_s) return;
  const double bound_s = std::max(step.bound_s, found.step_s - found.slack_s);
  if (found.more && effort_of_recompute <= search_.effort / settling_share)
    unsettled_.push({bound_s, step.begins, effort_of_recompute});
  else
    left_s_ = std::min(left_s_, bound_s);
}

/// Looks once more, and longer, at the unsettled split that may be fastest.
Candidate::Step Candidate::settled(const SplitRank* incumbent) {
  const Unsettled split = unsettled_.top();
  unsettled_.pop();
  Step step = simulated(split.begins, incumbent, 4 * split.effort);
  step.bound_s = split.bound_s;
  settle(step, 4 * split.effort);
  return step;
}

Candidate::Step Candidate::simulated(const std::vector<int>& begins, const SplitRank* incumbent,
                                     int64_t effort_of_recompute, const std::vector<int>& choices) {
  Step step{begins, 0,
            opened_->simulate(
                begins, {order_.most_s(incumbent), effort_of_recompute, choices, search_.stop})};
  effort += step.outcome.effort;
  return step;
}

void Candidate::reach(const Step& step) {
  reached_ = {step.begins, step.outcome.step_s, rank_of(step.outcome)};
}

Candidate::Step Candidate::proposed(const std::vector<int>& begins, const SplitRank* incumbent) {
  Step step = simulated(begins, incumbent);
  ++*next_proposal_;
  start_ = begins;
  if (!fits(step)) return step;
  next_proposal_.reset();
  reach(step);
  if (order_.objective == SearchObjective::step) {
    paths_ = opened_->paths(begins);
    walks_left_ = paths_ || opened_->bounds_lead(begins) ? walks : 0;
  }
  if (walks_left_ == 0) neighbours_.emplace(begins, opened_->splits().units());
  return step;
}

/// The next neighbour that may be better than what was reached.
std::optional<std::vector<int>> Candidate::next_neighbour() {
  const SplitSpace& splits = opened_->splits();
  for (auto begins = neighbours_->next(); begins; begins = neighbours_->next()) {
    if (order_.objective != SearchObjective::step) return begins;
    effort += stage_effort * splits.stages() + splits.split_effort();
    if (splits.split_s(*begins) <= reached_.step_s) return begins;
  }
  return std::nullopt;
}

/// Looks at the next neighbour, and goes on from it where it is better.
Candidate::Step Candidate::climb(const SplitRank* incumbent) {
  const auto begins = next_neighbour();
  if (!begins) {
    neighbours_.reset();
    return {};
  }
  Step step = simulated(*begins, incumbent);
  if (!fits(step) || rank_of(step.outcome) >= reached_.rank) return step;
  reach(step);
  neighbours_->move();
  return step;
}

Walk::Judge Candidate::judge() const {
  if (paths_) return judged_by(*paths_);
  const SplitSpace& splits = opened_->splits();
  return {[&splits](const std::vector<int>& begins) { return splits.rough_s(begins); },
          stage_effort * splits.stages()};
}

/// Goes on with a walk, and simulates the split at its end. Neighbours of the best one follow only
/// where more counts than it was judged by, and no annealings come.
Candidate::Step Candidate::walked(const SplitRank* incumbent) {
  if (!walk_) {
    walk_.emplace(judge(), opened_->splits().units(), start_,
                  static_cast<uint32_t>(walks - walks_left_));
    tries_ = tries_per_stage * opened_->splits().stages();
  }
  const int64_t before = walk_->effort();
  walk_->go_on(tries_at_a_time);
  effort += walk_->effort() - before;
  tries_ -= tries_at_a_time;
  if (tries_ > 0) return {};
  Step step = simulated(walk_->begins(), incumbent);
  walk_.reset();
  if (fits(step) && rank_of(step.outcome) < reached_.rank) reach(step);
  const bool slow =
      --walks_left_ <= walks - first_walks && reached_.step_s > hopeless * order_.most_s(incumbent);
  if (slow) walks_left_ = 0;
  const bool will_anneal = paths_ && has_many() && opened_->places_recompute();
  if (walks_left_ == 0 && !slow && !will_anneal &&
      reached_.step_s * (1 - near_enough) > judge().split_s(reached_.begins))
    neighbours_.emplace(reached_.begins, opened_->splits().units());
  return step;
}

/// Boxes and annealings take turns, where what was found is not far above the best of all: what is
/// proven soon needs no annealing.
bool Candidate::anneals(const SplitRank* incumbent) const {
  if (!annealings_.empty()) return true;
  if (!boxed_ || boxes_effort_ < annealing_due_ || !opened_->places_recompute()) return false;
  const double far = seeds_ == 0 ? hopeless : unlikely;
  if (result.best && result.best->outcome.step_s > far * order_.most_s(incumbent)) return false;
  return (*program_)->recompute() != nullptr;
}

bool Candidate::awaits_annealing() const {
  if (!annealings_.empty()) return seeds_ <= annealings_at_once;
  const ProgramPaths* paths = boxed_ ? program_->get() : has_many() ? paths_.get() : nullptr;
  return paths && paths->recompute() && opened_->places_recompute() && seeds_ == 0;
}

void Candidate::anneal_soon() {
  if (!boxed_) follow_boxes();
  annealing_due_ = 0;
}

/// Annealings from the best split yet come to others than those from the proposals do.
std::vector<std::vector<int>> Candidate::starts() const {
  std::vector<std::vector<int>> starts{result.best ? result.best->begins : start_};
  for (int number = 0;; ++number) {
    starts.push_back(opened_->proposal(number));
    if (!starts.back().empty()) continue;
    starts.pop_back();
    return starts;
  }
}

/// Goes on with annealings, and simulates the best of their ends.
Candidate::Step Candidate::annealed(const SplitRank* incumbent) {
  if (annealings_.empty()) {
    const std::vector<std::vector<int>> starts = this->starts();
    for (size_t i = 0; i < annealings_at_once; ++i)
      annealings_.emplace_back(**program_, starts[i % starts.size()], annealing_effort_, seeds_++);
  }
  std::vector<int64_t> efforts(annealings_.size());
  in_parallel(annealings_.size(), search_.threads,
              [&](size_t i) { efforts[i] = annealings_[i].go_on(annealing_at_a_time); });
  effort += std::accumulate(efforts.begin(), efforts.end(), int64_t{0});
  if (!std::ranges::all_of(annealings_, &Annealing::ended)) return {};
  const auto best = std::ranges::min_element(annealings_, {}, &Annealing::step_s);
  Step step = simulated(best->begins(), incumbent, 0, best->choices());
  annealings_.clear();
  annealing_effort_ *= 2;
  annealing_due_ = boxes_for_annealing * annealing_effort_;
  boxes_effort_ = 0;
  return step;
}

void Candidate::follow_boxes() {
  program_ = paths_;
  annealing_effort_ = first_annealing;
  annealing_due_ = first_boxes;
  const SplitNeeds least{opened_->splits().min_s(), opened_->splits().min_bytes()};
  open_splits_ =
      std::make_unique<BoxTree>(std::move(paths_), least, order_, search_.threads, search_.stop);
  paths_.reset();
  boxed_ = true;
}

std::optional<SplitRank> Candidate::climbing() const {
  return neighbours_ || walks_left_ > 0 ? std::optional(reached_.rank) : std::nullopt;
}

void Candidate::open() {
  begun_ = true;
  opened_ = space_.open();
  if (!opened_) return;
  const SplitSpace& splits = opened_->splits();
  result.bound_s = std::max(result.bound_s, splits.min_s());
  result.bytes = std::max(result.bytes, splits.min_bytes());
  result.splits = splits.splits();
  if (std::isinf(result.bound_s) || !order_.may_admit(result.bound_s, result.bytes)) return close();
  open_splits_ = std::make_unique<Frontier>(splits, order_);
  if (result.splits > few_splits) next_proposal_ = 0;
}

}  // namespace penstock
