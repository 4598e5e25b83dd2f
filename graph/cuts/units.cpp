// Units: from many possible cuts to the ones that a partition needs.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "graph/cuts/cuts.hpp"
#include "graph/operators/flops.hpp"

namespace penstock {
namespace {

constexpr double negligible = 1.0 / 2048;  // of the model's FLOPs: joins its neighbour
constexpr double smallest = 1.0 / 256;  // of the model's FLOPs: what dividing leaves on each side
constexpr double large = 1.0 / 64;      // of the model's FLOPs: is divided further

/// Chooses positions; of two the better is the one between outer modules, then the one with fewer
/// bytes.
class Cutter {
 public:
  Cutter(const Graph& graph, const Analysis& analysis)
      : count_(static_cast<OperatorId>(graph.operators.size())),
        bytes_(cut_bytes(graph, analysis, graph.example_batch)),
        flops_before_(count_ + 1),
        allowed_(allowed_cuts(graph)) {
    for (OperatorId id = 0; id < count_; ++id) {
      const Operator& op = graph.operators[id];
      const bool free = is_recomputed(op, analysis);
      flops_before_[id + 1] =
          flops_before_[id] + (free ? 0 : forward_flops(graph, op, graph.example_batch));
      depth_.push_back(boundary_depth(graph, id));
    }
    for (const OperatorId cut : join_negligible(dominator_cuts(graph, analysis)))
      kept_.push_back(cut);
  }

  std::vector<OperatorId> run() {
    std::vector<OperatorId> ends = kept_;
    ends.push_back(count_);
    OperatorId begin = 0;
    for (const OperatorId end : ends) {
      divide_stretch(begin, end);
      begin = end;
    }
    std::ranges::sort(kept_);
    return kept_;
  }

 private:
  /// The number of module calls that the operators on both sides of the position have in common,
  /// from the root inwards: 0 between two top-level modules. no_boundary if no call begins or ends
  /// there.
  static int boundary_depth(const Graph& graph, OperatorId id) {
    if (id == 0) return 0;
    const auto& before = graph.operators[id - 1].modules;
    const auto& after = graph.operators[id].modules;
    const auto common = std::ranges::mismatch(before, after).in2 - after.begin();
    const bool boundary = common < static_cast<std::ptrdiff_t>(after.size()) ||
                          common < static_cast<std::ptrdiff_t>(before.size());
    return boundary ? static_cast<int>(common) : no_boundary;
  }

  double flops(OperatorId begin, OperatorId end) const {
    return flops_before_[end] - flops_before_[begin];
  }
  double total() const { return flops_before_.back(); }
  bool is_negligible(OperatorId begin, OperatorId end) const {
    return flops(begin, end) <= negligible * total();
  }

  bool better(OperatorId a, OperatorId b) const {
    return std::tuple(depth_[a], bytes_[a], a) < std::tuple(depth_[b], bytes_[b], b);
  }

  /// Keeps only the best of cuts with next to nothing between them, and none that has next to
  /// nothing before or after it.
  std::vector<OperatorId> join_negligible(const std::vector<OperatorId>& cuts) const {
    std::vector<OperatorId> kept;
    OperatorId group = -1;  // the first cut of the group at work
    for (const OperatorId cut : cuts) {
      if (!allowed_[cut] || is_negligible(0, cut) || is_negligible(cut, count_)) continue;
      if (group >= 0 && is_negligible(group, cut)) {
        if (better(cut, kept.back())) kept.back() = cut;
      } else {
        kept.push_back(cut);
        group = cut;
      }
    }
    return kept;
  }

  /// A stretch between dominator cuts, and what its cuts are measured by.
  struct Stretch {
    double average_bytes;
    int outermost;  // least depth of a boundary inside
  };

  void divide_stretch(OperatorId begin, OperatorId end) {
    if (end - begin < 2) return;
    const auto inside = bytes_.begin() + begin + 1, last = bytes_.begin() + end;
    const double sum = std::accumulate(inside, last, 0.0);
    divide(begin, end,
           {sum / static_cast<double>(last - inside),
            *std::min_element(depth_.begin() + begin + 1, depth_.begin() + end)});
  }

  /// Divides [begin, end) at its best cut until it is small or has no cut to be divided at: one
  /// with locally smallest bytes, or a boundary of the outermost modules with no more bytes than
  /// average.
  void divide(OperatorId begin, OperatorId end, const Stretch& stretch) {
    if (flops(begin, end) <= large * total()) return;
    OperatorId best = -1;
    for (OperatorId k = begin + 1; k < end; ++k) {
      if (!allowed_[k] || std::min(flops(begin, k), flops(k, end)) < smallest * total()) continue;
      const bool boundary = depth_[k] == stretch.outermost && depth_[k] != no_boundary &&
                            static_cast<double>(bytes_[k]) <= stretch.average_bytes;
      if ((boundary || is_minimum(begin, k, end)) && (best < 0 || better(k, best))) best = k;
    }
    if (best < 0) return;
    kept_.push_back(best);
    divide(begin, best, stretch);
    divide(best, end, stretch);
  }

  /// No neighbour within [begin, end] has fewer bytes, where neighbours with as many count as one.
  bool is_minimum(OperatorId begin, OperatorId k, OperatorId end) const {
    OperatorId before = k, after = k;
    while (before > begin && bytes_[before] == bytes_[k]) --before;
    while (after < end && bytes_[after] == bytes_[k]) ++after;
    return bytes_[before] >= bytes_[k] && bytes_[after] >= bytes_[k];
  }

  static constexpr int no_boundary = 1 << 20;
  OperatorId count_;
  std::vector<int64_t> bytes_;
  std::vector<double> flops_before_;
  std::vector<bool> allowed_;
  std::vector<int> depth_;
  std::vector<OperatorId> kept_;
};

}  // namespace

std::vector<Unit> units(const Graph& graph, const Analysis& analysis) {
  std::vector<OperatorId> begins(graph.operators.size());
  std::iota(begins.begin(), begins.end(), 0);
  if (!graph.layers && !begins.empty()) {
    begins = Cutter(graph, analysis).run();
    begins.insert(begins.begin(), 0);
  }
  return units_at(graph, begins);
}

std::vector<Unit> units_at(const Graph& graph, const std::vector<OperatorId>& begins) {
  std::vector<Unit> units;
  for (size_t i = 0; i < begins.size(); ++i) {
    const bool last = i + 1 == begins.size();
    const auto end = last ? static_cast<OperatorId>(graph.operators.size()) : begins[i + 1];
    units.push_back({begins[i], end, begin_name(graph, begins[i])});
  }
  return units;
}

std::vector<OperatorId> begins_of(const std::vector<Unit>& units) {
  std::vector<OperatorId> begins;
  for (const Unit& unit : units) begins.push_back(unit.begin);
  return begins;
}

std::vector<OperatorId> unit_begins(const Graph& graph, const Analysis& analysis) {
  return begins_of(units(graph, analysis));
}

}  // namespace penstock
