#include "graph/sharding/search.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>
#include <utility>

#include "graph/sharding/repeats.hpp"
#include "graph/sharding/walk.hpp"

namespace penstock::sharding {
namespace {

struct Decision {
  int before;  // place in the list of decisions; -1 for none
  int option;  // place in Node::options; -1 where a value is held in a further layout
  ValueId value = -1;
  int layout = -1;
};

struct HashOfHeld {
  size_t operator()(const std::vector<Held>& held) const {
    size_t hash = held.size();
    for (const Held each : held) hash = (std::rotl(hash, 5) ^ each) * 0x9E3779B97F4A7C15;
    return hash;
  }
};
using StatesByHeld = std::unordered_map<std::vector<Held>, State, HashOfHeld>;

class Search {
 public:
  Search(const Problem& problem, size_t width, int64_t max_weighed)
      : problem_(problem),
        width_(width),
        max_weighed_(max_weighed),
        rest_(problem.nodes.size() + 1, 0),
        walk_{problem, std::vector<Held>(problem.varies.size(), 0)},
        uses_(problem),
        repeats_(problem, uses_),
        exact_(problem.has_all_layouts) {
    for (OperatorId op = nodes() - 1; op >= 0; --op)
      rest_[op] = rest_[op + 1] + least_cost(problem.nodes[op]);
  }

  Found run() {
    states_.push_back({{}, 0, -1});
    for (OperatorId op = 0; op < nodes(); ++op) {
      while (const OperatorId count = repeat(op)) op += count;
      if (states_.empty()) return {std::nullopt, op};
      if (op == nodes()) break;
      if (problem_.nodes[op].options.empty()) continue;
      for (const ValueId value : problem_.nodes[op].operands) {
        if (!problem_.varies[value]) continue;
        keep_shared(op, value);
        hold_early(op, value);
      }
      advance(op);
      if (states_.empty()) return {std::nullopt, op};
    }
    return {completion(states_.front())};
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
    held.reserve(values.size());
    for (const ValueId value : values) held.push_back(walk_.held[value]);
    return held;
  }

  /// A tensor that is read several times: each way to keep it is tried, or the one that is pinned.
  void keep_shared(OperatorId op, ValueId value) {
    if (!problem_.is_parameter(value) || uses_.reads[value] < 2 || is_live(value)) return;
    const std::vector<State> before = std::exchange(states_, {});
    live_.push_back(value);
    const std::vector<Layout>& layouts = problem_.of(value).layouts;
    const int pin = problem_.pin[value];
    for (int place = 0; place < static_cast<int>(layouts.size()); ++place)
      if (pin < 0 ? layouts[place].kind() != Layout::Kind::partial : place == pin)
        for (State state : before) {
          state.held.push_back(0);
          read_early(op, value, place, std::move(state));
        }
  }

  /// From R there is a way to all other layouts that costs nothing. So it may be cheaper to have a
  /// value in R before it is read so: a later reader has paid for the others then. Where memory has
  /// a price, so it may be to have it in I: a slice of that is no more memory.
  void hold_early(OperatorId op, ValueId value) {
    if (!is_live(value) || uses_.last[value] <= op) return;
    hold_early(op, value, Layout::replicated());
    if (problem_.costs.saved_byte > 0 && problem_.saved[value].is_saved)
      hold_early(op, value, Layout::identical());
  }
  void hold_early(OperatorId op, ValueId value, const Layout& layout) {
    const int place = problem_.of(value).place(layout);
    const size_t at = std::ranges::find(live_, value) - live_.begin();
    const std::vector<State> before = states_;
    for (const State& state : before)
      if ((state.held[at] >> place & 1) == 0) read_early(op, value, place, state);
  }

  /// Adds the state in which the value is held so, too.
  void read_early(OperatorId op, ValueId value, int place, State state) {
    load(state);
    if (!walk_.read(op, value, place)) return;
    decisions_.push_back({state.decision, -1, value, place});
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
    std::erase_if(live, [&](ValueId value) { return uses_.last[value] <= op; });
    return live;
  }

  void advance(OperatorId op) {
    const Node& node = problem_.nodes[op];
    const std::vector<ValueId> live = live_after(op);
    StatesByHeld next;
    for (const State& state : states_) {
      load(state);
      const std::vector<Held> before = held_of(node.operands);
      for (size_t i = 0; i < node.options.size(); ++i) {
        walk_.cost = state.cost;
        if (walk_.take(op, node.options[i]) && !is_too_costly(walk_.cost, op + 1))
          add(next, {held_of(live), walk_.cost, state.decision, static_cast<int>(i)});
        for (size_t k = 0; k < before.size(); ++k) walk_.held[node.operands[k]] = before[k];
      }
      for (const ValueId value : live_) walk_.held[value] = 0;
    }
    for (const ValueId value : node.operands) walk_.held[value] = 0;
    for (const ValueId value : node.results)
      if (value >= 0) walk_.held[value] = 0;
    live_ = live;
    std::vector<State> reached;
    for (auto& [held, state] : next) reached.push_back(std::move(state));
    Kept kept = undominated(problem_, live_, std::move(reached), width_);
    exact_ = exact_ && kept.all;
    states_ = std::move(kept.states);
    decide();
    looked_at_ += static_cast<int64_t>(states_.size());
  }

  bool is_too_costly(int64_t cost, OperatorId next) const {
    return cost > max_weighed_ - rest_[next];
  }

  static void add(StatesByHeld& next, State state) {
    const auto [found, is_new] = next.try_emplace(state.held, state);
    if (!is_new && state.cost < found->second.cost) found->second = std::move(state);
  }

  void decide() {
    for (State& state : states_) {
      decisions_.push_back({state.decision, state.option});
      state.decision = static_cast<int>(decisions_.size()) - 1;
    }
  }

  /// The nodes from `op` on that go as those before them went: their decisions are taken over.
  /// None unless these began with the same states, each as much cheaper, or with more of them that
  /// are too costly by now.
  OperatorId repeat(OperatorId op) {
    if (op == nodes() || states_.empty() || !repeats_.is_repeated(op)) return 0;
    Frontier now{op, live_, states_, static_cast<int>(decisions_.size())};
    const auto earlier = frontiers_.find(repeats_.kind(op));
    const OperatorId count = earlier == frontiers_.end() ? 0 : repeat(earlier->second, now);
    frontiers_.insert_or_assign(repeats_.kind(op), std::move(now));
    return count;
  }
  OperatorId repeat(const Frontier& first, const Frontier& second) {
    const auto decided = same_decisions(first, second, max_weighed_ - rest_[second.node]);
    if (!decided) return 0;
    const auto others = repeats_.counterparts(first.node, second.node, first.live, second.live);
    if (!others) return 0;
    std::vector<ValueId> live;
    for (const ValueId value : second.live) live.push_back(others->at(value));
    if (!std::ranges::is_sorted(live)) return 0;
    live_ = std::move(live);
    take_over(first, second, *decided, *others);
    return second.node - first.node;
  }

  void take_over(const Frontier& first, const Frontier& second, std::map<int, int> decided,
                 const std::map<ValueId, ValueId>& others) {
    for (int at = first.decisions; at < second.decisions; ++at) {
      Decision decision = decisions_[at];
      const auto before = decided.find(decision.before);
      if (before == decided.end()) continue;  // of a state that is too costly by now
      decision.before = before->second;
      if (decision.value >= 0) decision.value = others.at(decision.value);
      decisions_.push_back(decision);
      decided[at] = static_cast<int>(decisions_.size()) - 1;
    }
    const int64_t dearer = second.states.front().cost - first.states.front().cost;
    const OperatorId end = 2 * second.node - first.node;
    states_.clear();
    for (State state : second.states) {
      state.cost += dearer;
      const auto decision = decided.find(state.decision);
      if (decision == decided.end() || is_too_costly(state.cost, end)) continue;
      state.decision = decision->second;
      states_.push_back(std::move(state));
    }
  }

  std::vector<Decision> path(const State& last) const {
    std::vector<Decision> path;
    for (int at = last.decision; at >= 0; at = decisions_[at].before)
      path.push_back(decisions_[at]);
    std::ranges::reverse(path);
    return path;
  }

  /// How outputs are read by the last node, which reads those that are tensors, in order.
  std::vector<Layout> ends(const Signature& last) const {
    std::vector<Layout> ends;
    auto read = last.operands.begin();
    for (const Output& output : problem_.graph.outputs)
      ends.push_back(std::holds_alternative<TensorRef>(output.value) ? *read++
                                                                     : Layout::identical());
    return ends;
  }

  /// Takes the decisions once more, and records what is converted and how tensors are kept.
  Completion completion(const State& last) {
    const size_t operators = problem_.graph.operators.size();
    Completion result{
        .batch = problem_.batch,
        .parts = problem_.parts,
        .tensors = std::vector<Layout>(problem_.graph.tensors.size(), Layout::identical()),
        .operators = std::vector<Signature>(operators),
        .weighed = last.cost,
        .exact = exact_,
        .states = looked_at_};
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
      if (op < static_cast<OperatorId>(operators))
        result.operators[op] = option.signature;
      else
        result.outputs = ends(option.signature);
      ++op;
    }
    return result;
  }

  const Problem& problem_;
  const size_t width_;
  const int64_t max_weighed_;
  std::vector<int64_t> rest_;  // what the nodes from each on compute, at least
  Walk walk_;
  const Uses uses_;
  const Repeats repeats_;
  std::vector<ValueId> live_;
  std::vector<State> states_;
  std::vector<Decision> decisions_;
  std::map<int, Frontier> frontiers_;  // the last of each kind of node
  int64_t looked_at_ = 0;
  bool exact_;
};

}  // namespace

Found search(const Problem& problem, size_t width, int64_t max_weighed) {
  return Search(problem, width, max_weighed).run();
}

}  // namespace penstock::sharding
