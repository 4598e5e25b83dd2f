#include "planner/paths/program_paths.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "pipeline/program/lowering.hpp"

namespace penstock {

namespace {

/// Actions that are followed for an effort of one: alone, and where ranks also choose what they
/// recompute (measured with 32 to 64 stages).
constexpr int actions_followed = 64, actions_with_recompute = 32;

std::vector<size_t> times_of(const Action& part, const SplitTimes& times) {
  const bool first = part.microbatch == 0;
  const size_t input = times.at(first ? SplitTime::first_input : SplitTime::input, part.stage);
  const size_t weight = times.at(SplitTime::weight, part.stage);
  switch (part.kind) {
    case Kind::forward:
      return {times.at(first ? SplitTime::first_forward : SplitTime::forward, part.stage)};
    case Kind::backward: return {input, weight};
    case Kind::backward_input: return {input};
    case Kind::backward_weight: return {weight};
    default: return {};
  }
}

/// The neighbour whose message an F, B or I waits for, and the transfer's stage; -1: none.
std::pair<int, int> sender(const Action& part, int stages) {
  if (part.kind == Kind::forward) return {part.stage - 1, part.stage};
  if (!is_input_backward(part.kind) || part.stage + 1 == stages) return {-1, -1};
  return {part.stage + 1, part.stage + 1};
}

}  // namespace

/// Ranks go on in turn, an action at a time, once the messages that it waits for have been sent: so
/// neighbours among the nodes hardly follow one another, and a processor adds up several at once.
class ProgramPaths::Builder {
 public:
  Builder(ProgramPaths& paths, const Program& compute, bool posts_when_reached)
      : paths_(paths),
        times_(paths.times_),
        microbatches_(compute.microbatches),
        of_ranks_(compute.ranks.size()) {
    const size_t cells = 2 * static_cast<size_t>(times_.stages() * microbatches_);
    sent_.assign(cells, -1);
    posted_.assign(cells, -1);
    if (posts_when_reached) note_posts(lower(compute, chain_flows(times_.stages())));
  }

  void run(const Program& compute) {
    std::vector<size_t> next(compute.ranks.size(), 0);
    for (bool moved = true; std::exchange(moved, false);) {
      for (size_t rank = 0; rank < next.size(); ++rank) {
        const std::vector<Action>& actions = compute.ranks[rank];
        if (next[rank] == actions.size() || !append(rank, actions[next[rank]])) continue;
        ++next[rank];
        moved = true;
      }
    }
    const int* times = paths_.times_of_nodes_.data();
    const Follows* follows = paths_.follows_.data();
    for (const auto& [time_count, follow_count] : counts_) {
      paths_.nodes_.push_back({{times, time_count}, {follows, follow_count}});
      times += time_count;
      follows += follow_count;
    }
  }

 private:
  size_t cell(bool backward, int stage, int microbatch) const {
    const int row = (backward ? times_.stages() : 0) + stage;
    return static_cast<size_t>(row * microbatches_ + microbatch);
  }

  void note_posts(const Program& lowered) {
    for (const std::vector<Action>& actions : lowered.ranks) {
      int before = -1;
      for (const Action& action : actions) {
        if (is_receive(action.kind))
          posted_[cell(action.kind == Kind::recv_backward, action.stage, action.microbatch)] =
              before;
        before += is_compute(action.kind);
      }
    }
  }

  bool append(size_t rank, const Action& action) {
    std::vector<int>& before = of_ranks_[rank];
    std::vector<int> times;
    std::vector<Follows> follows, posts;
    bool ready = true;
    for_each_part(action, [&](const Action& part) {
      ready = ready && receive(part, before, follows, posts);
      for (const size_t i : times_of(part, times_)) times.push_back(static_cast<int>(i));
    });
    if (!ready) return false;
    if (!before.empty()) follows.push_back({before.back(), -1});
    if (posts.size() == 1 && follows.size() == 2 && posts[0].node == before.back())
      times.push_back(std::exchange(follows[0].transfer, -1));  // behind both
    else
      follows.insert(follows.end(), posts.begin(), posts.end());
    paths_.last_[rank] = static_cast<int>(counts_.size());
    before.push_back(paths_.last_[rank]);
    counts_.emplace_back(times.size(), follows.size());
    std::ranges::copy(times, std::back_inserter(paths_.times_of_nodes_));
    std::ranges::copy(follows, std::back_inserter(paths_.follows_));
    for_each_part(action, [&](const Action& part) {
      if (part.kind == Kind::backward_weight) return;
      sent_[cell(part.kind != Kind::forward, part.stage, part.microbatch)] = paths_.last_[rank];
    });
    return true;
  }

  /// False: its message was not sent. `before`: what its rank did; `posts`: what its RECV follows.
  bool receive(const Action& part, const std::vector<int>& before, std::vector<Follows>& follows,
               std::vector<Follows>& posts) const {
    const auto [stage, cut] = sender(part, times_.stages());
    if (stage < 0) return true;
    const bool backward = part.kind != Kind::forward;
    const int from = sent_[cell(backward, stage, part.microbatch)];
    if (from < 0) return false;
    const SplitTime transfer = backward ? SplitTime::gradients : SplitTime::activations;
    const int time = static_cast<int>(times_.at(transfer, cut));
    follows.push_back({from, time});
    const int post = posted_[cell(backward, part.stage, part.microbatch)];
    if (post >= 0) posts.push_back({before[static_cast<size_t>(post)], time});
    return true;
  }

  ProgramPaths& paths_;
  const SplitTimes& times_;
  const int microbatches_;
  std::vector<std::vector<int>> of_ranks_;  // nodes, in order
  // By backward, stage and microbatch: the node that sends; the number of the receiving rank's last
  // action before its RECV. -1: none.
  std::vector<int> sent_, posted_;
  std::vector<std::pair<size_t, size_t>> counts_;  // of each node's times and of what it follows
};

ProgramPaths::ProgramPaths(const Program& compute, SplitTimes times, bool posts_when_reached,
                           Recompute recompute)
    : times_(std::move(times)), recompute_(std::move(recompute)), last_(compute.ranks.size(), -1) {
  Builder(*this, compute, posts_when_reached).run(compute);
}

std::vector<double> ProgramPaths::ends(const Times& times) const {
  std::vector<double> ends_s(nodes_.size());
  const double *const times_s = times.data(), *const known_s = ends_s.data();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    double end_s = nodes_[i].follows.empty() ? 0 : -std::numeric_limits<double>::infinity();
    for (const Follows& from : nodes_[i].follows) {
      const double transfer_s = from.transfer < 0 ? 0.0 : times_s[from.transfer];
      end_s = std::max(end_s, known_s[from.node] + transfer_s);
    }
    for (const int time : nodes_[i].times) end_s += times_s[time];
    ends_s[i] = end_s;
  }
  return ends_s;
}

std::pair<int, double> ProgramPaths::optimizer(const Times& times) const {
  std::vector<double> of_rank(last_.size(), 0.0);
  for (int stage = 0; stage < times_.stages(); ++stage)
    of_rank[static_cast<size_t>(times_.rank_of_stage()[static_cast<size_t>(stage)])] +=
        times[times_.at(SplitTime::optimizer, stage)];
  const auto longest = std::ranges::max_element(of_rank);
  return {static_cast<int>(longest - of_rank.begin()), *longest};
}

double ProgramPaths::longest_s(const Times& times) const {
  const std::vector<double> ends = this->ends(times);
  double longest_s = 0;
  for (const int last : last_)
    if (last >= 0) longest_s = std::max(longest_s, ends[static_cast<size_t>(last)]);
  return longest_s + optimizer(times).second;
}

/// The times of a split with the recompute that ranks are expected to choose; absent where they do
/// not fit.
std::optional<Times> ProgramPaths::expected(const std::vector<int>& begins) const {
  Times times = times_.of(begins);
  if (!recompute_.expected) return times;
  const auto longer_s = recompute_.expected->longer_s(begins);
  if (!longer_s) return std::nullopt;
  recompute_.memory->lengthen(times_, *longer_s, times);
  return times;
}

double ProgramPaths::expected_s(const std::vector<int>& begins) const {
  const std::optional<Times> times = expected(begins);
  return times ? longest_s(*times) : std::numeric_limits<double>::infinity();
}

/// The least seconds of a path, where `kept` are the times of the split without recompute: each
/// rank recomputes the least with which it fits, in stages whose backwards are on the path least
/// often.
double ProgramPaths::least_s(const Path& path, const Times& kept,
                             const std::vector<int>& begins) const {
  const std::vector<double> longer = recompute_.memory->longer(times_, path.weights);
  std::vector<double> seldom(last_.size(), std::numeric_limits<double>::infinity());
  for (size_t stage = 0; stage < longer.size(); ++stage) {
    double& of_rank = seldom[static_cast<size_t>(times_.rank_of_stage()[stage])];
    of_rank = std::min(of_rank, longer[stage]);
  }
  double seconds = weighted_sum(path.weights, kept);
  for (size_t rank = 0; rank < seldom.size(); ++rank)
    if (seldom[rank] > 0) seconds += seldom[rank] * recompute_.shared->recompute_s(begins, rank);
  return seconds;
}

double ProgramPaths::split_s(const std::vector<int>& begins) const {
  const Times kept = times_.of(begins);
  if (!recompute_.memory || !recompute_.shared) return longest_s(kept);
  double longest_s = recompute_.shared->split_s(begins);
  for (const Path& path : longest(expected(begins).value_or(kept)))
    longest_s = std::max(longest_s, least_s(path, kept, begins));
  return longest_s;
}

/// The longest that ends with that node, followed by the longest OPT.
ProgramPaths::Path ProgramPaths::path_to(int last, const Times& times,
                                         const std::vector<double>& ends) const {
  const auto [owner, optimizer_s] = optimizer(times);
  Path path{ends[static_cast<size_t>(last)] + optimizer_s, Times(times.size(), 0.0), {}};
  for (int node = last; node >= 0;) {
    path.nodes.push_back(node);
    const auto& [taken, follows] = nodes_[static_cast<size_t>(node)];
    for (const int time : taken) ++path.weights[static_cast<size_t>(time)];
    const auto last_of = std::ranges::max_element(follows, {}, [&](const Follows& from) {
      const auto transfer = static_cast<size_t>(from.transfer);
      return ends[static_cast<size_t>(from.node)] + (from.transfer < 0 ? 0.0 : times[transfer]);
    });
    node = last_of == follows.end() ? -1 : last_of->node;
    if (node >= 0 && last_of->transfer >= 0) ++path.weights[static_cast<size_t>(last_of->transfer)];
  }
  for (int stage = 0; stage < times_.stages(); ++stage)
    if (times_.rank_of_stage()[static_cast<size_t>(stage)] == owner)
      ++path.weights[times_.at(SplitTime::optimizer, stage)];
  std::ranges::reverse(path.nodes);
  return path;
}

std::vector<ProgramPaths::Path> ProgramPaths::longest(const Times& times) const {
  const std::vector<double> ends = this->ends(times);
  std::vector<Path> paths;
  for (const int last : last_)
    if (last >= 0) paths.push_back(path_to(last, times, ends));
  std::ranges::stable_sort(paths, std::greater(), &Path::seconds);
  return paths;
}

ProgramPaths::Path ProgramPaths::longest_path(const Times& times) const {
  const std::vector<double> ends = this->ends(times);
  const int last = std::ranges::max(last_, {}, [&](int of_rank) {
    return of_rank < 0 ? -1.0 : ends[static_cast<size_t>(of_rank)];
  });
  return path_to(last, times, ends);
}

Walk::Judge judged_by(const ProgramPaths& paths) {
  return {[&paths](const std::vector<int>& begins) { return paths.expected_s(begins); },
          paths.actions() / (paths.memory() ? actions_with_recompute : actions_followed)};
}

}  // namespace penstock
