#include "planner/open/box_tree.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "planner/open/in_parallel.hpp"
#include "planner/paths/full_ranks.hpp"
#include "planner/paths/walk.hpp"

namespace penstock {

namespace {

/// Boxes that are bounded at the same time. Fixed, whatever the number of threads.
constexpr size_t boxes_at_once = 8;
/// A split near a mixture is improved by so many tries where its own path is longer than the best
/// step by no more than this.
constexpr int tries_nearby = 150;
constexpr double nearby = 0.005;
/// The solver's work for the first box, and how many times as much each time that it goes on: of
/// many layouts all are bounded a little before one is to the end.
constexpr int64_t first_work = 100'000, times_more_work = 4,
                  no_limit = std::numeric_limits<int64_t>::max();
/// Nodes of a frontier that take the memory of one of these, for each of its stages.
constexpr int64_t nodes_per_stage = 10;
/// Effort of a round of a bound, or of an estimate: of so many actions of the program one, of each
/// four pairs of stages so much, so many times that where prices of memory are found as well, and
/// one of so much of the solver's work (measured with 28 to 80 stages on two cores). To start the
/// solver takes at least so much (16 stages).
constexpr int64_t actions_per_effort = 12, effort_of_four_pairs = 2, times_with_memory = 3,
                  work_per_effort = 3, least_round_effort = 800;

/// The stage whose begin is known least, below and behind `begin`.
Division widest(const Ranges& begins, const std::vector<double>& means) {
  size_t at = 0;
  for (size_t stage = 0; stage < begins.low.size(); ++stage)
    if (begins.high[stage] - begins.low[stage] > begins.high[at] - begins.low[at]) at = stage;
  const int last = static_cast<int>(std::floor(means[at]));
  return {Division::Of::begins, static_cast<int>(at),
          std::clamp(last, begins.low[at], begins.high[at] - 1)};
}

}  // namespace

BoxTree::BoxTree(std::shared_ptr<const ProgramPaths> paths, SplitNeeds least,
                 const SplitOrder& order, int threads, std::function<bool()> stop)
    : bounds_(std::move(paths)),
      choice_(bounds_.paths().ranks(), bounds_.paths().times().stages()),
      least_(least),
      order_(order),
      threads_(threads),
      stop_(std::move(stop)) {
  const int64_t stages = bounds_.paths().times().stages();
  round_effort_ =
      bounds_.paths().actions() / actions_per_effort + effort_of_four_pairs * stages * stages / 4;
  if (bounds_.paths().memory()) round_effort_ *= times_with_memory;
  round_effort_ = std::max(round_effort_, least_round_effort);
  const Node none{
      .box = {}, .bound_s = least_.seconds, .rank = {}, .most_work = 0, .mixture = nullptr};
  add(bounds_.all(), none, nullptr);
}

int64_t BoxTree::kept() const {
  if (by_parts()) return parts_->kept();
  return (parts_ ? parts_->kept() : 0) +
         static_cast<int64_t>(queue_.size()) * nodes_per_stage * bounds_.paths().times().stages();
}

BoxBound::Aim BoxTree::aim(const SplitRank* incumbent) const {
  const double most_s = order_.most_s(incumbent);
  return {most_s < order_.most_s(nullptr) ? most_s * (1 - near_enough) : most_s, most_s};
}

std::optional<std::vector<int>> BoxTree::step(const SplitRank* incumbent) {
  near_ = false;
  if (parts_ && (parts_->tabulated() || parts_->effort() < effort_)) {
    const auto split = parts_->step(incumbent);
    if (parts_->failed()) {
      effort_ += parts_->effort();
      parts_.reset();
    }
    return split ? once(*split) : std::nullopt;
  }
  NodePointer node = queue_.top();
  queue_.pop();
  if (incumbent && node->rank > *incumbent) {
    queue_ = {};
    return std::nullopt;
  }
  if (!node->bounded) return bound(std::move(node), incumbent);
  if (node->box.begins.single()) {
    const bool fresh = given_.insert(node->box.begins.low).second;
    if (fresh || bounds_.paths().recompute()) return node->box.begins.low;
    return std::nullopt;
  }
  divide(*node, incumbent);
  return std::nullopt;
}

/// Bounds the next box, and at the same time those whose turn comes then.
void BoxTree::bound_ahead(const NodePointer& next, const SplitRank* incumbent) {
  std::vector<NodePointer> boxes{next}, others;
  while (boxes.size() < boxes_at_once && others.size() < boxes_at_once && !queue_.empty()) {
    NodePointer node = queue_.top();
    if (incumbent && node->rank > *incumbent) break;
    queue_.pop();
    if (node->bounded && !node->box.begins.single())
      divide(*node, incumbent);
    else
      (node->bounded || node->ahead ? others : boxes).push_back(std::move(node));
  }
  in_parallel(boxes.size(), threads_, [&](size_t i) {
    if (stop_ && stop_()) return;
    const BoxBound::Known none;
    Node& node = *boxes[i];
    BoxBound::Aim aim = this->aim(incumbent);
    aim.most_work = node.most_work;
    node.ahead = std::make_shared<BoxBound::Bound>(bounds_.bound(
        std::move(node.box), node.mixture ? node.mixture->known : none, aim, choice_));
  });
  for (const NodePointer& node : boxes) {
    if (!node->ahead) continue;
    const BoxBound::Bound& of = *node->ahead;
    const int64_t rounds = 1 + of.rounds + 2 * static_cast<int64_t>(of.choice.tried.size());
    effort_ += rounds * round_effort_ + of.solver_work / work_per_effort;
    choice_.learn(of.choice.tried);
  }
  others.insert(others.end(), boxes.begin() + 1, boxes.end());
  for (NodePointer& node : others) queue_.push(std::move(node));
}

std::optional<std::vector<int>> BoxTree::bound(NodePointer node, const SplitRank* incumbent) {
  if (!node->ahead) bound_ahead(node, incumbent);
  if (!node->ahead) {
    queue_.push(std::move(node));
    return std::nullopt;
  }
  std::shared_ptr<const BoxBound::Bound> bound = std::move(node->ahead);
  if (!bound->box) return std::nullopt;
  node->box = *bound->box;
  node->bounded = !bound->more;
  node->bound_s = std::max(node->bound_s, bound->seconds);
  node->mixture = std::move(bound);
  if (!node->bounded) {
    node->most_work *= times_more_work;
    enqueue(std::move(node), incumbent);
    return std::nullopt;
  }
  if (node->number == 0) bound_full_ranks(*node, aim(incumbent).enough_s);
  std::optional<std::vector<int>> split;
  if (!node->box.begins.single()) split = near(*node, aim(incumbent).enough_s);
  if (node->number == 0 && !node->box.begins.single() && PartTree::applies_to(bounds_.paths()))
    parts_ = std::make_unique<PartTree>(bounds_.shared_paths(), node->box,
                                        SplitNeeds{node->bound_s, least_.bytes},
                                        node->mixture->paths, order_);
  enqueue(std::move(node), incumbent);
  return split;
}

/// To `enough_s`, where ranks that have as many units as they can allow no less.
void BoxTree::bound_full_ranks(Node& node, double enough_s) {
  if (!bounds_.paths().shared()) return;
  FullRanks full(bounds_.paths());
  if (full.none_is_faster(node.box, enough_s)) node.bound_s = std::max(node.bound_s, enough_s);
  effort_ += full.followed() * bounds_.paths().actions() / actions_per_effort;
}

/// A split whose stages begin about where those of the mixture do, where it may be the best.
std::optional<std::vector<int>> BoxTree::near(const Node& node, double enough_s) {
  const ProgramPaths& paths = bounds_.paths();
  const SplitBox all = paths.times().all();
  std::vector<int> begins(all.begins.low.size(), 0);
  for (size_t stage = 1; stage < begins.size(); ++stage)
    begins[stage] = std::clamp(static_cast<int>(std::lround(node.mixture->begins[stage])),
                               begins[stage - 1] + 1, all.begins.high[stage]);
  if (paths.expected_s(begins) > enough_s * (1 + nearby)) return std::nullopt;
  Walk walk(judged_by(paths), paths.times().units(), std::move(begins),
            static_cast<uint32_t>(node.number));
  walk.go_on(tries_nearby);
  effort_ += walk.effort();
  if (walk.split_s() >= enough_s) return std::nullopt;
  near_ = true;
  return once(walk.begins());
}

/// No split is given twice.
std::optional<std::vector<int>> BoxTree::once(std::vector<int> begins) {
  if (!given_.insert(begins).second) return std::nullopt;
  return begins;
}

void BoxTree::divide(const Node& node, const SplitRank* incumbent) {
  std::vector<Division> divisions = node.mixture->choice.divisions;
  if (divisions.empty() || !divides(divisions.front(), node.box))
    divisions = {widest(node.box.begins, node.mixture->begins)};
  SplitBox rest = node.box;
  for (const Division& division : divisions) {
    if (!divides(division, rest)) continue;
    auto [first, second] = divided(rest, division);
    add(std::move(second), node, incumbent);
    rest = std::move(first);
  }
  add(std::move(rest), node, incumbent);
}

void BoxTree::add(SplitBox box, const Node& parent, const SplitRank* incumbent) {
  enqueue(std::make_shared<Node>(Node{.box = std::move(box),
                                      .bound_s = parent.bound_s,
                                      .rank = {},
                                      .number = numbers_++,
                                      .most_work = parent.mixture ? no_limit : first_work,
                                      .mixture = parent.mixture}),
          incumbent);
}

void BoxTree::enqueue(NodePointer node, const SplitRank* incumbent) {
  if (!order_.may_admit(node->bound_s, least_.bytes)) return;
  node->rank = order_.bound(node->bound_s, least_.bytes);
  if (incumbent && node->rank > *incumbent) return;
  queue_.push(std::move(node));
}

}  // namespace penstock
