#include "planner/model/branch_units.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "graph/cuts/cuts.hpp"
#include "graph/cuts/slice.hpp"
#include "graph/operators/flops.hpp"
#include "planner/model/dag.hpp"

namespace penstock {

namespace {

constexpr double kLightModelShare = 1.0 / 64, next_to_none = 1.0 / 2048;

/// Operators of no module stand alone.
std::vector<OperatorId> piece_begins(const Graph& model, const Analysis& analysis) {
  std::set<OperatorId> begins;
  for (const OperatorId begin : unit_begins(model, analysis)) begins.insert(begin);
  for (size_t op = 0; op < model.operators.size(); ++op) {
    const std::vector<std::string>& modules = model.operators[op].modules;
    const bool same = op > 0 && !modules.empty() && !model.operators[op - 1].modules.empty() &&
                      modules.front() == model.operators[op - 1].modules.front();
    if (!same) begins.insert(static_cast<OperatorId>(op));
  }
  const std::vector<bool> allowed = allowed_cuts(model);
  std::erase_if(begins, [&](OperatorId begin) { return !allowed[static_cast<size_t>(begin)]; });
  return {begins.begin(), begins.end()};
}

/// Pieces that are joined step by step.
class Joined {
 public:
  Joined(int pieces, const std::vector<StageEdge>& edges, std::vector<double> flops)
      : into_(static_cast<size_t>(pieces)),
        before_(static_cast<size_t>(pieces)),
        behind_(static_cast<size_t>(pieces)),
        flops_(std::move(flops)) {
    std::iota(into_.begin(), into_.end(), 0);
    all_ = std::accumulate(flops_.begin(), flops_.end(), 0.0);
    for (const StageEdge& edge : edges) {
      behind_[static_cast<size_t>(edge.producer)].insert(edge.consumer);
      before_[static_cast<size_t>(edge.consumer)].insert(edge.producer);
    }
  }

  /// The join of each piece, by the number of its last piece.
  std::vector<int> run() {
    for (size_t piece = 0; piece < into_.size(); ++piece) {
      if (before_[piece].empty() && behind_[piece].empty() && piece > 0)
        join(piece - 1, piece);  // constants: every stage computes those that it needs
    }
    for (size_t piece = 0; piece < into_.size(); ++piece) join_backwards(piece);
    std::vector<int> result(into_.size());
    for (size_t piece = 0; piece < into_.size(); ++piece)
      result[piece] = static_cast<int>(found(piece));
    return result;
  }

 private:
  size_t found(size_t piece) const {
    while (static_cast<size_t>(into_[piece]) != piece) piece = static_cast<size_t>(into_[piece]);
    return piece;
  }
  bool small(size_t piece) const { return flops_[piece] < next_to_none * all_; }

  /// With the pieces before it that have no other way out, or that are its only way in.
  void join_backwards(size_t piece) {
    const std::set<int> before = before_[piece];
    for (const int one : before) {
      const auto from = static_cast<size_t>(one);
      const bool only_out = behind_[from].size() == 1, only_in = before_[piece].size() == 1;
      const bool light = flops_[from] + flops_[piece] <= kLightModelShare * all_;
      const bool chain = only_out && only_in && light;
      if (chain || (only_out && small(from)) || (only_in && small(piece))) join(from, piece);
    }
  }

  /// `from` becomes a part of `piece`.
  void join(size_t from, size_t piece) {
    const int old = static_cast<int>(from), now = static_cast<int>(piece);
    into_[from] = now;
    flops_[piece] += flops_[from];
    before_[piece].erase(old);
    behind_[from].erase(now);
    for (const int one : before_[from]) {
      behind_[static_cast<size_t>(one)].erase(old);
      behind_[static_cast<size_t>(one)].insert(now);
      before_[piece].insert(one);
    }
    for (const int one : behind_[from]) {
      before_[static_cast<size_t>(one)].erase(old);
      before_[static_cast<size_t>(one)].insert(now);
      behind_[piece].insert(one);
    }
  }

  std::vector<int> into_;
  std::vector<std::set<int>> before_, behind_;
  std::vector<double> flops_;
  double all_ = 0;
};

/// Numbered along the data flow.
std::vector<int> in_order(const std::vector<int>& joined, const std::vector<StageEdge>& edges) {
  const std::vector<int> groups = numbered(joined);
  Dag pieces{.nodes = static_cast<int>(groups.size()), .edges = {}};
  for (const StageEdge& edge : edges) pieces.edges.emplace_back(edge.producer, edge.consumer);
  const std::vector<int> order = topological_order(quotient(pieces, groups));
  std::vector<int> place(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    place[static_cast<size_t>(order[i])] = static_cast<int>(i);
  std::vector<int> result;
  result.reserve(groups.size());
  for (const int group : groups) result.push_back(place[static_cast<size_t>(group)]);
  return result;
}

}  // namespace

std::vector<int> branch_units(const Graph& model, const Analysis& analysis) {
  const std::vector<OperatorId> begins = piece_begins(model, analysis);
  const int count = static_cast<int>(begins.size());
  const Slicing pieces = slice(model, analysis, interval_stages(model, begins), count);
  std::vector<double> flops(begins.size(), 0.0);
  for (size_t op = 0; op < model.operators.size(); ++op) {
    flops[static_cast<size_t>(pieces.stage_of_operator[op])] +=
        forward_flops(model, model.operators[op], model.example_batch);
  }
  const std::vector<int> joined = Joined(count, pieces.edges, std::move(flops)).run();
  const std::vector<int> unit_of_piece = in_order(joined, pieces.edges);
  std::vector<int> units;
  units.reserve(model.operators.size());
  for (const int piece : pieces.stage_of_operator)
    units.push_back(unit_of_piece[static_cast<size_t>(piece)]);
  return units;
}

}  // namespace penstock
