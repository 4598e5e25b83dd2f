#include "planner/open/part_tree.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace penstock {

namespace {

constexpr int most_crossing_edges = 100;
/// Relative: by how much all parts together may be longer than those that they beat.
constexpr double beaten_within = 1e-6;

}  // namespace

bool PartTree::applies_to(const ProgramPaths& paths) {
  return !paths.memory() && StagedPaths::apply_to(paths) &&
         StagedPaths(paths).most_crossing() <= most_crossing_edges;
}

PartTree::PartTree(std::shared_ptr<const ProgramPaths> paths, SplitBox box, SplitNeeds least,
                   const BoxBound::PathMixture& mixture, const SplitOrder& order)
    : paths_(std::move(paths)),
      staged_(*paths_),
      box_(std::move(box)),
      least_(least),
      order_(order),
      more_s_(beaten_within * least.seconds / stages()),
      tables_(static_cast<size_t>(stages())) {
  for (int cut = 0; cut <= stages(); ++cut) {
    firsts_.emplace_back(staged_, StageRange{0, cut});
    lasts_.emplace_back(staged_, StageRange{cut, stages()});
  }
  for (size_t s = 0; s < tables_.size(); ++s) {
    const int stage = static_cast<int>(s);
    const StageRange nodes{stage, stage + 1};
    firsts_grow_.emplace_back(staged_, PartMeeting::Borders{&firsts_[s]}, nodes, firsts_[s + 1]);
    lasts_grow_.emplace_back(staged_, PartMeeting::Borders{&lasts_[s + 1]}, nodes, lasts_[s]);
    meet_.emplace_back(staged_, PartMeeting::Borders{&firsts_[s], &lasts_[s]},
                       StageRange{stage, stage}, lasts_[0]);
  }
  for (Table& table : tables_) table.resize(static_cast<size_t>(paths_->times().units()));
  tables_[0][0].push_back(firsts_[0].none());
  bound_.emplace(staged_, mixture, box_, firsts_);
  enqueue({{}, lasts_.back().none(), least_.seconds, {}, 0}, nullptr);
}

std::optional<std::vector<int>> PartTree::step(const SplitRank* incumbent) {
  if (!tabulated()) {
    tabulate(order_.most_s(incumbent) * (1 + beaten_within));
    return std::nullopt;
  }
  const NodePointer node = queue_.top();
  queue_.pop();
  if (incumbent && node->rank > *incumbent) {
    queue_ = {};
    return std::nullopt;
  }
  if (static_cast<int>(node->begins.size()) == stages()) return node->begins;
  expand(*node, incumbent);
  return std::nullopt;
}

/// Adds a stage with the next begin to all parts before it, and leaves out what takes longer with
/// any stages behind.
void PartTree::tabulate(double most_s) {
  const auto stage = static_cast<size_t>(next_stage_);
  next_unit_ = std::max(next_unit_, box_.begins.low[stage]);
  const int begin = next_unit_++;
  const SplitTimes& times = paths_->times();
  const std::vector<ChainPart>& parts = tables_[stage][static_cast<size_t>(begin)];
  const PartMeeting& grow = firsts_grow_[stage];
  const int low = std::max(begin + box_.stages.low[stage], box_.begins.low[stage + 1]);
  const int high = std::min(begin + box_.stages.high[stage], box_.begins.high[stage + 1]);
  const auto rank = static_cast<size_t>(times.rank_of_stage()[stage]);
  for (int end = low; end <= high && !parts.empty(); ++end) {
    const std::vector<double> seconds = grow.seconds(times, begin, end);
    const double update_s = times.of_stage(times.at(SplitTime::optimizer, next_stage_), begin, end);
    for (const ChainPart& part : parts) {
      ChainPart grown = grow.joined({&part}, seconds);
      grown.updates[rank] += update_s;
      work_ += grow.steps();
      if (bound_->least_s(grown, next_stage_ + 1, end) > most_s) continue;
      add(tables_[stage + 1][static_cast<size_t>(end)], std::move(grown), firsts_[stage + 1]);
    }
  }
  if (next_unit_ > box_.begins.high[stage]) {
    ++next_stage_;
    next_unit_ = 0;
  }
}

/// Adds it unless another beats it; parts that it beats go.
void PartTree::add(std::vector<ChainPart>& parts, ChainPart part, const PartBorder& border) {
  for (size_t i = 0; i < parts.size(); ++i) {
    work_ += border.lengths();
    if (!border.no_longer(parts[i], part, more_s_)) continue;
    if (i > 0) std::swap(parts[i], parts[i - 1]);  // it may beat others, too
    return;
  }
  work_ += static_cast<int64_t>(parts.size()) * border.lengths();
  numbers_ -= static_cast<int64_t>(parts.size()) * border.lengths();
  std::erase_if(parts,
                [&](const ChainPart& other) { return border.no_longer(part, other, more_s_); });
  parts.push_back(std::move(part));
  numbers_ += static_cast<int64_t>(parts.size()) * border.lengths();
}

/// Adds each stage before those that are known.
void PartTree::expand(const Node& node, const SplitRank* incumbent) {
  const int stage = stages() - 1 - static_cast<int>(node.begins.size());
  const auto s = static_cast<size_t>(stage);
  const int end = node.begins.empty() ? paths_->times().units() : node.begins.front();
  const int low = std::max(end - box_.stages.high[s], box_.begins.low[s]);
  const int high = std::min(end - box_.stages.low[s], box_.begins.high[s]);
  const SplitTimes& times = paths_->times();
  for (int begin = low; begin <= high; ++begin) {
    Node next{node.begins, {}, node.bound_s, {}, 0};
    next.begins.insert(next.begins.begin(), begin);
    next.part = lasts_grow_[s].joined({&node.part}, lasts_grow_[s].seconds(times, begin, end));
    next.part.updates[static_cast<size_t>(times.rank_of_stage()[s])] +=
        times.of_stage(times.at(SplitTime::optimizer, stage), begin, end);
    work_ += lasts_grow_[s].steps();
    const double bound_s =
        stage == 0 ? paths_->split_s(next.begins) : best_s(next.part, stage, begin);
    if (std::isinf(bound_s)) continue;
    next.bound_s = std::max(next.bound_s, bound_s);
    enqueue(std::move(next), incumbent);
  }
}

/// With the best of the first stages.
double PartTree::best_s(const ChainPart& last, int cut, int unit) {
  const PartMeeting& meet = meet_[static_cast<size_t>(cut)];
  const std::vector<double> seconds = meet.seconds(paths_->times(), unit, unit);
  double best_s = std::numeric_limits<double>::infinity();
  for (const ChainPart& first : tables_[static_cast<size_t>(cut)][static_cast<size_t>(unit)]) {
    const ChainPart all = meet.joined({&first, &last}, seconds);
    best_s = std::min(best_s, all.inside_s + *std::ranges::max_element(all.updates));
    work_ += meet.steps();
  }
  return best_s - cut * more_s_;
}

void PartTree::enqueue(Node node, const SplitRank* incumbent) {
  if (!order_.may_admit(node.bound_s, least_.bytes)) return;
  node.rank = order_.bound(node.bound_s, least_.bytes);
  if (incumbent && node.rank > *incumbent) return;
  node.number = made_++;
  queue_.push(std::make_shared<Node>(std::move(node)));
}

}  // namespace penstock
