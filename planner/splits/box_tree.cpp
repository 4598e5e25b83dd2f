#include "planner/splits/box_tree.hpp"

#include <algorithm>
#include <cmath>

#include "planner/paths/walk.hpp"

namespace penstock {

namespace {

/// Numbers of a mixture that are nearer to a whole one than this are whole.
constexpr double whole_within = 1e-4;
/// A split near a mixture is improved by so many tries where its own path is longer than the best
/// step by no more than this.
constexpr int tries_nearby = 150;
constexpr double nearby = 0.02;
/// A box is bounded so often before it is divided though its bound has not settled.
constexpr int most_bounds = 3;
/// Nodes of a frontier that take the memory of one of these, for each of its stages.
constexpr int64_t nodes_per_stage = 10;
/// Effort of a round of a bound: of so many actions of the program one, and of each two stages so
/// much (measured where effort_per_second is, with 16 and with 32 stages).
constexpr int64_t actions_per_effort = 3, effort_of_pair = 4;

bool single(const SplitBox& box) { return box.low == box.high; }

/// The number farthest from whole ones, of those that lie between bounds with room; or -1.
int most_divided(const std::vector<double>& numbers, const std::vector<int>& low,
                 const std::vector<int>& high) {
  double most = whole_within;
  int at = -1;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double off = std::abs(numbers[i] - std::round(numbers[i]));
    if (off <= most || low[i] == high[i]) continue;
    most = off;
    at = static_cast<int>(i);
  }
  return at;
}

int widest(const SplitBox& box) {
  size_t at = 0;
  for (size_t stage = 0; stage < box.low.size(); ++stage)
    if (box.high[stage] - box.low[stage] > box.high[at] - box.low[at]) at = stage;
  return static_cast<int>(at);
}

/// The two parts of a box whose stage begins with unit `last` at most, and behind it.
std::pair<RankBox, RankBox> divided_behind(const RankBox& box, int stage, int last) {
  std::pair<RankBox, RankBox> parts{box, box};
  auto& high = parts.first.begins.high;
  auto& low = parts.second.begins.low;
  const auto s = static_cast<size_t>(stage);
  high[s] = last;
  low[s] = last + 1;
  for (size_t before = s; before-- > 1;)
    high[before] = std::min(high[before], high[before + 1] - 1);
  for (size_t behind = s + 1; behind < low.size(); ++behind)
    low[behind] = std::max(low[behind], low[behind - 1] + 1);
  return parts;
}

}  // namespace

BoxTree::BoxTree(std::shared_ptr<const ProgramPaths> paths, Least least, const SplitOrder& order)
    : bounds_(std::move(paths)), least_(least), order_(order) {
  const int64_t stages = bounds_.paths().times().stages();
  round_effort_ = bounds_.paths().actions() / actions_per_effort + effort_of_pair * stages * stages;
  const Node none{.box = {}, .bound_s = least_.seconds, .rank = {}, .mixture = nullptr};
  add(bounds_.all(), none, nullptr);
}

int64_t BoxTree::kept() const {
  return static_cast<int64_t>(queue_.size()) * nodes_per_stage * bounds_.paths().times().stages();
}

/// Boxes that come to it need not be known any better.
double BoxTree::enough_s(const SplitRank* incumbent) const {
  const double most_s = order_.max_s / order_.weight;
  if (!incumbent || std::get<0>(*incumbent) != order_.complexity) return most_s;
  const double best_s = static_cast<double>(std::get<1>(*incumbent)) * 1e-9 / order_.weight;
  return std::min(most_s, best_s * (1 - near_enough));
}

std::optional<std::vector<int>> BoxTree::step(const SplitRank* incumbent) {
  NodePointer node = queue_.top();
  queue_.pop();
  if (incumbent && node->rank > *incumbent) {
    queue_ = {};
    return std::nullopt;
  }
  if (!node->bounded) return bound(std::move(node), incumbent);
  if (single(node->box.begins)) return once(node->box.begins.low);
  divide(*node, incumbent);
  return std::nullopt;
}

std::optional<std::vector<int>> BoxTree::bound(NodePointer node, const SplitRank* incumbent) {
  const BoxBound::Known none;
  const double enough_s = this->enough_s(incumbent);
  node->mixture = std::make_shared<BoxBound::Bound>(
      bounds_.bound(node->box, node->mixture ? node->mixture->known : none, enough_s));
  node->bounded = node->mixture->settled || ++node->bounds == most_bounds;
  effort_ += (1 + node->mixture->rounds) * round_effort_;
  if (node->mixture->begins.empty()) return std::nullopt;
  node->bound_s = std::max(node->bound_s, node->mixture->seconds);
  std::optional<std::vector<int>> split;
  if (!single(node->box.begins)) split = near(*node, enough_s);
  enqueue(std::move(node), incumbent);
  return split;
}

/// A split whose stages begin about where those of the mixture do, where it may be the best.
std::optional<std::vector<int>> BoxTree::near(const Node& node, double enough_s) {
  const ProgramPaths& paths = bounds_.paths();
  const SplitBox all = paths.times().all();
  std::vector<int> begins(all.low.size(), 0);
  for (size_t stage = 1; stage < begins.size(); ++stage)
    begins[stage] = std::clamp(static_cast<int>(std::lround(node.mixture->begins[stage])),
                               begins[stage - 1] + 1, all.high[stage]);
  if (paths.split_s(begins) > enough_s * (1 + nearby)) return std::nullopt;
  Walk walk(judged_by(paths), paths.times().units(), std::move(begins),
            static_cast<uint32_t>(node.number));
  walk.go_on(tries_nearby);
  effort_ += walk.effort(tries_nearby);
  if (walk.split_s() >= enough_s) return std::nullopt;
  return once(walk.begins());
}

/// No split is given twice.
std::optional<std::vector<int>> BoxTree::once(std::vector<int> begins) {
  if (!given_.insert(begins).second) return std::nullopt;
  return begins;
}

void BoxTree::divide(const Node& node, const SplitRank* incumbent) {
  const BoxBound::Bound& mixture = *node.mixture;
  const auto& [begins, min_units, max_units] = node.box;
  const auto below = [](double number, int low, int high) {
    return std::clamp(static_cast<int>(std::floor(number + whole_within)), low, high - 1);
  };
  std::pair<RankBox, RankBox> parts{node.box, node.box};
  if (const int rank = most_divided(mixture.units, min_units, max_units); rank >= 0) {
    const auto r = static_cast<size_t>(rank);
    const int units = below(mixture.units[r], min_units[r], max_units[r]);
    parts.first.max_units[r] = units;
    parts.second.min_units[r] = units + 1;
  } else {
    int stage = most_divided(mixture.begins, begins.low, begins.high);
    if (stage < 0) stage = widest(begins);
    const auto s = static_cast<size_t>(stage);
    parts =
        divided_behind(node.box, stage, below(mixture.begins[s], begins.low[s], begins.high[s]));
  }
  add(std::move(parts.first), node, incumbent);
  add(std::move(parts.second), node, incumbent);
}

void BoxTree::add(RankBox box, const Node& parent, const SplitRank* incumbent) {
  enqueue(std::make_shared<Node>(Node{.box = std::move(box),
                                      .bound_s = parent.bound_s,
                                      .rank = {},
                                      .number = numbers_++,
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
