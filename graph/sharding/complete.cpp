#include "graph/sharding/complete.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "graph/sharding/walk.hpp"

namespace penstock::sharding {
namespace {

struct Decision {
  int before;  // place in the list of decisions; -1 for none
  int option;  // place in Node::options; -1 where a value is held in a further layout
  ValueId value = -1;
  Layout layout = Layout::identical();
};

struct State {
  std::vector<Held> held;  // of each value in use
  int64_t cost;
  int decision;     // the last one that led here
  int option = -1;  // and what is taken now
};

/// For a first search, whose completion says what the cheapest costs at most.
constexpr size_t narrow_width = 32;

class Search {
 public:
  /// Keeps so many states at an operator, and none that leads to a completion above `max_cost`.
  Search(const Problem& problem, size_t width, int64_t max_cost)
      : problem_(problem),
        width_(width),
        max_cost_(max_cost),
        rest_(problem.nodes.size() + 1, 0),
        walk_{problem, std::vector<Held>(problem.varies.size(), 0)},
        last_use_(problem.varies.size(), -1),
        reads_(problem.varies.size(), 0),
        exact_(problem.has_all_layouts) {
    for (OperatorId op = 0; op < nodes(); ++op)
      for (const ValueId value : problem.nodes[op].operands) {
        ++reads_[value];
        last_use_[value] = op;
      }
    for (OperatorId op = nodes() - 1; op >= 0; --op)
      rest_[op] = rest_[op + 1] + least_cost(problem.nodes[op]);
  }

  /// Nothing where no state is left.
  std::optional<Completion> run() {
    states_.push_back({{}, 0, -1});
    for (OperatorId op = 0; op < nodes(); ++op) {
      if (problem_.nodes[op].options.empty()) continue;
      for (const ValueId value : problem_.nodes[op].operands) {
        keep_shared(op, value);
        replicate_early(op, value);
      }
      advance(op);
      failed_ = op;
      if (states_.empty()) return std::nullopt;
    }
    return completion(states_.front());
  }

  /// Nothing that the operator at which the search failed can do reads and gives weights as they
  /// are pinned.
  [[noreturn]] void refuse() const {
    const auto count = static_cast<OperatorId>(problem_.graph.operators.size());
    const bool ends = failed_ == count;
    throw InputError(ends ? problem_.graph.path : problem_.graph.operators[failed_].name,
                     fmt::format("{} cannot be computed in {} parts with {}",
                                 ends ? "outputs" : problem_.graph.operators[failed_].target,
                                 problem_.parts, pinned_operands(problem_.nodes[failed_])),
                     "Split along another dimension, or hold the parameter whole.");
  }

 private:
  static int64_t least_cost(const Node& node) {
    const auto least = std::ranges::min_element(node.options, {}, &Option::cost);
    return least == node.options.end() ? 0 : least->cost;
  }

  OperatorId nodes() const { return static_cast<OperatorId>(problem_.nodes.size()); }

  void load(const State& state) {
    for (size_t i = 0; i < live_.size(); ++i) walk_.held[live_[i]] = state.held[i];
    walk_.cost = state.cost;
  }
  std::vector<Held> held_of(const std::vector<ValueId>& values) const {
    std::vector<Held> held;
    for (const ValueId value : values) held.push_back(walk_.held[value]);
    return held;
  }

  /// A tensor that is read several times: each way to keep it is tried, or the one that is pinned.
  void keep_shared(OperatorId op, ValueId value) {
    if (!problem_.is_parameter(value) || reads_[value] < 2 || is_live(value)) return;
    const auto pin = problem_.pinned.tensors.find(problem_.graph.values[value].tensor);
    const auto is_tried = [&](const Layout& layout) {
      return pin == problem_.pinned.tensors.end() ? layout.kind() != Layout::Kind::partial
                                                  : layout == pin->second;
    };
    const std::vector<State> before = std::exchange(states_, {});
    live_.push_back(value);
    for (const Layout& layout : problem_.values[value].layouts)
      if (is_tried(layout))
        for (State state : before) {
          state.held.push_back(0);
          read_early(op, value, layout, std::move(state));
        }
  }

  /// From R there is a way to all other layouts that costs nothing. So it may be cheaper to have a
  /// value in R before it is read so: a later reader has paid for the others then.
  void replicate_early(OperatorId op, ValueId value) {
    if (!is_live(value) || last_use_[value] <= op) return;
    const Held replicated = problem_.values[value].bit(Layout::replicated());
    const size_t at = std::ranges::find(live_, value) - live_.begin();
    const std::vector<State> before = states_;
    for (const State& state : before)
      if ((state.held[at] & replicated) == 0) read_early(op, value, Layout::replicated(), state);
  }

  /// Adds the state in which the value is held so, too.
  void read_early(OperatorId op, ValueId value, const Layout& layout, State state) {
    load(state);
    if (!walk_.read(op, value, layout)) return;
    decisions_.push_back({state.decision, -1, value, layout});
    states_.push_back({held_of(live_), walk_.cost, static_cast<int>(decisions_.size()) - 1});
  }

  bool is_live(ValueId value) const { return std::ranges::find(live_, value) != live_.end(); }

  /// Values in use after an operator.
  std::vector<ValueId> live_after(OperatorId op) const {
    std::vector<ValueId> live = live_;
    for (const auto* values : {&problem_.nodes[op].operands, &problem_.nodes[op].results})
      for (const ValueId value : *values)
        if (value >= 0 && problem_.varies[value]) live.push_back(value);
    std::ranges::sort(live);
    live.erase(std::unique(live.begin(), live.end()), live.end());
    std::erase_if(live, [&](ValueId value) { return last_use_[value] <= op; });
    return live;
  }

  void advance(OperatorId op) {
    const Node& node = problem_.nodes[op];
    const std::vector<ValueId> live = live_after(op);
    std::map<std::vector<Held>, State> next;
    for (const State& state : states_) {
      load(state);
      const std::vector<Held> before = held_of(node.operands);
      for (size_t i = 0; i < node.options.size(); ++i) {
        walk_.cost = state.cost;
        if (walk_.take(op, node.options[i]))
          add(next, {held_of(live), walk_.cost, state.decision, static_cast<int>(i)});
        for (size_t k = 0; k < before.size(); ++k) walk_.held[node.operands[k]] = before[k];
      }
      for (const ValueId value : live_) walk_.held[value] = 0;
    }
    for (const ValueId value : node.operands) walk_.held[value] = 0;
    for (const ValueId value : node.results)
      if (value >= 0) walk_.held[value] = 0;
    live_ = live;
    states_.clear();
    for (auto& [held, state] : next) states_.push_back(std::move(state));
    std::erase_if(states_,
                  [&](const State& state) { return state.cost > max_cost_ - rest_[op + 1]; });
    prune();
    decide();
  }

  std::string pinned_operands(const Node& node) const {
    std::vector<std::string> parameters;
    for (const ValueId value : node.operands) {
      const int tensor = problem_.graph.values[value].tensor;
      const auto pin = problem_.pinned.tensors.find(tensor);
      if (pin != problem_.pinned.tensors.end())
        parameters.push_back(fmt::format("{} [{}] in {}", problem_.graph.tensors[tensor].name,
                                         fmt::join(problem_.graph.tensors[tensor].sizes, ", "),
                                         pin->second.str()));
    }
    return parameters.empty() ? "its weights held as pins want them"
                              : fmt::format("{}", fmt::join(parameters, " and "));
  }

  static void add(std::map<std::vector<Held>, State>& next, State state) {
    const auto found = next.find(state.held);
    if (found == next.end())
      next.emplace(state.held, std::move(state));
    else if (state.cost < found->second.cost)
      found->second = std::move(state);
  }

  void decide() {
    for (State& state : states_) {
      decisions_.push_back({state.decision, state.option});
      state.decision = static_cast<int>(decisions_.size()) - 1;
    }
  }

  /// Cheapest first; without those that a cheaper one can turn into for what they cost more.
  void prune() {
    std::ranges::stable_sort(states_, {}, &State::cost);
    std::vector<State> kept;
    for (State& state : states_) {
      if (std::ranges::any_of(kept, [&](const State& by) { return can_become(by, state); }))
        continue;
      if (kept.size() == width_) {
        exact_ = false;
        break;
      }
      kept.push_back(std::move(state));
    }
    states_ = std::move(kept);
  }

  bool can_become(const State& cheap, const State& other) const {
    int64_t cost = cheap.cost;
    for (size_t i = 0; i < live_.size(); ++i)
      for (Held missing = other.held[i] & ~cheap.held[i]; missing != 0; missing &= missing - 1) {
        const Choices& choices = problem_.values[live_[i]];
        const Way way = cheapest_way(choices, cheap.held[i], std::countr_zero(missing));
        if (way.cost > other.cost - cost) return false;
        cost += way.cost;
      }
    return true;
  }

  std::vector<Decision> path(const State& last) const {
    std::vector<Decision> path;
    for (int at = last.decision; at >= 0; at = decisions_[at].before)
      path.push_back(decisions_[at]);
    std::ranges::reverse(path);
    return path;
  }

  /// Takes the decisions once more, and records what is converted and how tensors are kept.
  Completion completion(const State& last) {
    const size_t operators = problem_.graph.operators.size();
    Completion result{problem_.batch,
                      problem_.parts,
                      std::vector<Layout>(problem_.graph.tensors.size(), Layout::identical()),
                      std::vector<Signature>(operators),
                      {},
                      last.cost,
                      exact_};
    for (const auto& [tensor, layout] : problem_.pinned.tensors) result.tensors[tensor] = layout;
    Walk walk{problem_, std::vector<Held>(problem_.varies.size(), 0), 0, &result};
    OperatorId op = 0;
    for (const Decision& decision : path(last)) {
      while (problem_.nodes[op].options.empty()) ++op;
      if (decision.option < 0) {
        walk.read(op, decision.value, decision.layout);
        continue;
      }
      const Option& option = problem_.nodes[op].options[decision.option];
      walk.take(op, option);
      if (op < static_cast<OperatorId>(operators)) result.operators[op] = option.signature;
      ++op;
    }
    return result;
  }

  const Problem& problem_;
  const size_t width_;
  const int64_t max_cost_;
  std::vector<int64_t> rest_;  // what the nodes from each on compute, at least
  Walk walk_;
  std::vector<OperatorId> last_use_;
  std::vector<int> reads_;
  std::vector<ValueId> live_;
  std::vector<State> states_;
  std::vector<Decision> decisions_;
  bool exact_;
  OperatorId failed_ = -1;
};

}  // namespace

Completion complete(const Graph& graph, const Pins& pins, int64_t batch, int parts,
                    int64_t microbatches) {
  const Problem problem = make_problem(graph, pins, batch, parts, microbatches);
  const auto first = Search(problem, narrow_width, INT64_MAX).run();
  if (first && first->exact) return *first;
  Search wide(problem, beam_width, first ? first->cost : INT64_MAX);
  if (auto found = wide.run()) return *found;
  if (first) return *first;
  wide.refuse();
}

bool splits(const Completion& completion) {
  return std::ranges::any_of(completion.tensors, &Layout::is_split) ||
         std::ranges::any_of(completion.operators, [](const Signature& signature) {
           return std::ranges::any_of(signature.results, &Layout::is_split);
         });
}

bool same_layouts(const Completion& one, const Completion& other) {
  return one.parts == other.parts && one.tensors == other.tensors &&
         one.operators == other.operators && one.conversions == other.conversions;
}

}  // namespace penstock::sharding
