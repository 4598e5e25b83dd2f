// All downsets of a DAG: the sets of nodes that contain, with a node, everything before it. The
// possible first parts of a pipeline are the downsets of its graph, and the possible stages are the
// differences of two downsets of which one contains the other (J. Tarnawski et al., "Efficient
// algorithms for device placement of DNN graph operators", 2020, call them ideals).
//
//     0 -> 1 -> 3      {} {0} {0 1} {0 2} {0 1 2} {0 1 2 3}
//      `-> 2 --^
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/model/dag.hpp"

namespace penstock {

/// Numbered from the smallest to the largest: 0 is empty, count() - 1 contains all nodes.
/// The same for the same graph.
class Downsets {
 public:
  /// Enumerates at most `limit` downsets. Where there are more, `complete()` is false and only
  /// those along topological_order(dag) are there: the graph as a chain.
  Downsets(const Dag& dag, size_t limit);

  bool complete() const { return complete_; }
  int count() const { return static_cast<int>(above_.size()); }
  int empty() const { return 0; }
  int full() const { return count() - 1; }
  bool contains(int downset, int node) const {
    return bits_[static_cast<size_t>(downset) * words_ + static_cast<size_t>(node) / 64] >>
               (node % 64) &
           1;
  }
  std::vector<int> nodes(int downset) const;

  /// A downset that contains one more node.
  struct Step {
    int node = 0, downset = 0;
  };
  const std::vector<Step>& above(int downset) const { return above_[downset]; }

  /// Visits every downset that contains `from` and is larger, each once. `enter(step)` is called
  /// with the node that was added last and says whether to go on from there; `leave(step)` undoes
  /// it. Between the two the nodes entered and not left are those that the downset has more than
  /// `from`, so that what a stage costs can be kept up to date node by node.
  template <class Enter, class Leave>
  void walk_up(int from, const Enter& enter, const Leave& leave) {
    seen_.resize(count(), 0);
    ++walks_;
    walk(from, enter, leave);
  }

 private:
  template <class Enter, class Leave>
  void walk(int downset, const Enter& enter, const Leave& leave) {
    for (const Step& step : above_[downset]) {
      if (seen_[step.downset] == walks_) continue;
      seen_[step.downset] = walks_;
      if (enter(step)) walk(step.downset, enter, leave);
      leave(step);
    }
  }
  bool enumerate(const Dag& dag, size_t limit);
  void follow(const std::vector<int>& order);
  const uint64_t* words(size_t downset) const { return bits_.data() + downset * words_; }

  int nodes_;
  size_t words_;
  bool complete_;
  std::vector<uint64_t> bits_;  // of downset d: words_ words from d * words_ on
  std::vector<std::vector<Step>> above_;
  std::vector<int64_t> seen_;  // which walk was here last; one at a time
  int64_t walks_ = 0;
};

}  // namespace penstock
