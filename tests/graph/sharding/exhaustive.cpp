#include "tests/graph/sharding/exhaustive.hpp"

#include <algorithm>
#include <cmath>

#include "graph/operators/flops.hpp"
#include "graph/sharding/saved.hpp"
#include "graph/sharding/signatures.hpp"

namespace penstock::sharding::testing {
namespace {

constexpr int64_t never = INT64_MAX / 4;
using Set = unsigned;  // a bit for each of a value's layouts

bool is_whole(const Layout& layout) {
  return layout.kind() == Layout::Kind::identical || layout.kind() == Layout::Kind::replicated;
}

/// Bytes that each rank sends, from what it has as `from` to what it is to have as `to`.
int64_t sent(const Layout& from, const Layout& to, int64_t bytes, int parts) {
  const auto divide_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t piece = divide_up(bytes, parts), others = parts - 1;
  if (from == to || is_whole(from)) return 0;
  if (from.is_split() && to.is_split()) return others * divide_up(piece, parts);
  const int64_t added_up = from.is_split() ? 0 : others * piece;
  const int64_t gathered = is_whole(to) ? others * piece : 0;
  return from.is_split() && !is_whole(to) ? 0 : added_up + gathered;
}

class Exhaustive {
 public:
  Exhaustive(const Graph& graph, const Pins& pins, int64_t batch, int parts, int64_t microbatches,
             FirstOutput first)
      : graph_(graph),
        batch_(batch),
        parts_(parts),
        microbatches_(microbatches),
        costs_(pins.costs),
        pinned_(resolve(graph, pins, batch, parts)),
        depends_(graph.values.size(), false),
        has_gradient_(depends_),
        is_weight_(depends_),
        layouts_(graph.values.size(), {Layout::identical(), Layout::replicated()}),
        made_(graph.values.size()),
        read_(graph.values.size(), 0),
        readers_(graph.consumers()) {
    for (size_t i = 0; i < graph.values.size(); ++i) find_parameter(graph.values[i], i);
    for (const auto& [value, layout] : pinned_.values) know(value, layout);
    for (const Operator& op : graph.operators) find_dependent(op);
    saved_ = saved_values(graph, has_gradient_);
    for (const Operator& op : graph.operators) {
      signatures_.push_back(signatures(graph, op, batch, parts));
      if (!depends_[op.outputs.front()]) signatures_.back().resize(1);
      for (const Signature& each : signatures_.back()) {
        know(tensor_arguments(op), each.operands);
        know(op.outputs, each.results);
      }
    }
    if (first == FirstOutput::logits) find_loss();
  }

  std::optional<int64_t> cheapest() {
    const ValueId first = *graph_.first_output();
    for (const Layout& held : ends_of_first_) {
      std::ranges::fill(read_, Set{0});
      for (const Output& output : graph_.outputs) {
        const ValueId value = std::get<TensorRef>(output.value).value;
        const bool is_first = &output == &graph_.outputs.front();
        read_[value] |= bit(value, is_first ? held : Layout::identical());
      }
      choose(0, has_loss_ ? cost_of_loss(graph_.values[first], held) : 0);
    }
    return best_ == never ? std::nullopt : std::optional(best_);
  }

 private:
  /// A cross entropy of the first output, over its last dimension.
  void find_loss() {
    const ValueId logits = *graph_.first_output();
    const std::vector<Expression>& shape = graph_.values[logits].shape;
    has_loss_ = has_gradient_[logits] && shape.size() > 1;
    if (!has_loss_) return;
    const int last = static_cast<int>(shape.size()) - 1;
    Shape sizes;
    for (const Expression& size : shape) sizes.push_back(size.at(batch_));
    for (int64_t blocks = 1; blocks * parts_ <= sizes.back(); ++blocks)
      if (fits(Layout::split(last, blocks), sizes, parts_))
        ends_of_first_.push_back(Layout::split(last, blocks));
    for (const Layout& layout : ends_of_first_) know(logits, layout);
  }

  /// Three numbers of each row in float32 are gathered where ranks have some of the classes.
  int64_t cost_of_loss(const Value& logits, const Layout& held) const {
    const int64_t shares = held.is_split() ? parts_ : 1, all = logits.elements(batch_);
    const int64_t rows = all / logits.shape.back().at(batch_);
    const int64_t messages = held.is_split() ? 1000 * (parts_ - 1) * rows * 3 * 4 : 0;
    return messages + 3 * 5 * all / shares + costs_.saved_byte * (4 * all / shares);
  }

  void find_parameter(const Value& value, size_t at) {
    if (value.tensor < 0) return;
    const StoredTensor& tensor = graph_.tensors[value.tensor];
    if (tensor.kind != StoredTensor::Kind::parameter) return;
    depends_[at] = is_weight_[at] = true;
    has_gradient_[at] = tensor.requires_grad;
    for (int d = 0; d < static_cast<int>(tensor.sizes.size()); ++d)
      for (int64_t blocks = 1; blocks * parts_ <= tensor.sizes[d]; ++blocks)
        if (fits(Layout::split(d, blocks), tensor.sizes, parts_))
          layouts_[at].push_back(Layout::split(d, blocks));
  }

  void find_dependent(const Operator& op) {
    bool all = true;
    for (const ValueId value : op.reads()) {
      depends_[op.outputs[0]] = depends_[op.outputs[0]] || depends_[value];
      has_gradient_[op.outputs[0]] = has_gradient_[op.outputs[0]] || has_gradient_[value];
      all = all && is_weight_[value];
    }
    for (const ValueId value : op.outputs) {
      depends_[value] = depends_[op.outputs[0]];
      has_gradient_[value] = has_gradient_[op.outputs[0]];
      is_weight_[value] = all;
    }
  }

  void know(const std::vector<ValueId>& values, const std::vector<Layout>& layouts) {
    for (size_t i = 0; i < values.size(); ++i) know(values[i], layouts[i]);
  }
  void know(ValueId value, const Layout& layout) {
    auto& known = layouts_[value];
    if (std::ranges::find(known, layout) == known.end()) known.push_back(layout);
  }
  Set bit(ValueId value, const Layout& layout) const {
    return Set{1} << (std::ranges::find(layouts_[value], layout) - layouts_[value].begin());
  }

  int64_t cost(ValueId value, const Layout& from, const Layout& to) const {
    if (is_weight_[value] && from.is_split() && from != to) return never;
    const int64_t bytes = graph_.values[value].bytes(batch_);
    const int64_t copied = sent(from, to, bytes, parts_) > 0 ? price_of_saving(value, to) : 0;
    return moved(from, to, bytes, has_gradient_[value], parts_) + copied;
  }

  int64_t bytes_of(ValueId value, const Layout& layout) const {
    return graph_.values[value].bytes(batch_) / (layout.is_split() ? parts_ : 1);
  }
  int64_t price_of_saving(ValueId value, const Layout& layout) const {
    if (!saved_[value].is_saved || is_weight_[value]) return 0;
    return layout == Layout::partial() ? 0 : costs_.saved_byte * bytes_of(value, layout);
  }

  /// For each set of layouts, the least that getting from `root` to it and more costs: whatever is
  /// held can be converted into one more, in any order.
  const std::vector<int64_t>& from(ValueId value, const Layout& root) {
    auto& found = known_costs_[{value, root}];
    if (!found.empty()) return found;
    const std::vector<Layout>& layouts = layouts_[value];
    const size_t count = layouts.size();
    found.assign(size_t{1} << count, never);
    found[bit(value, root)] = 0;
    for (Set held = 0; held < found.size(); ++held)
      for (size_t a = 0; found[held] < never && a < count; ++a)
        for (size_t b = 0; (held >> a & 1) != 0 && b < count; ++b) {
          const int64_t step = cost(value, layouts[a], layouts[b]);
          int64_t& next = found[held | Set{1} << b];
          if (step < never) next = std::min(next, found[held] + step);
        }
    for (size_t b = 0; b < count; ++b)
      for (Set held = 0; held < found.size(); ++held)
        if ((held >> b & 1) == 0) found[held] = std::min(found[held], found[held | Set{1} << b]);
    return found;
  }

  int64_t cost_of_keeping(ValueId value, const Layout& layout) {
    const bool is_summed = layout.kind() == Layout::Kind::replicated && has_gradient_[value];
    const int64_t bytes = graph_.values[value].bytes(batch_);
    const int64_t copies = has_gradient_[value] ? state_bytes_per_byte : 1;
    const int64_t state = costs_.state_byte * copies * bytes_of(value, layout);
    if (!is_summed) return state;  // and once a step
    return state +
           moved(Layout::partial(), Layout::identical(), bytes, false, parts_) / microbatches_;
  }

  int64_t cost_of_parameter(ValueId value) {
    int64_t least = never;
    const auto pin = pinned_.tensors.find(graph_.values[value].tensor);
    for (const Layout& layout : layouts_[value]) {
      if (layout.kind() == Layout::Kind::partial) continue;
      if (pin != pinned_.tensors.end() && pin->second != layout) continue;
      const int64_t read = from(value, layout)[read_[value]];
      least = std::min(least, cost_of_keeping(value, layout) + read);
    }
    return least;
  }

  int64_t cost_of(ValueId value) {
    if (!depends_[value]) return 0;
    if (!made_[value]) return cost_of_parameter(value);
    const auto pin = pinned_.values.find(value);
    const int64_t saved = saved_[value].is_view ? 0 : price_of_saving(value, *made_[value]);
    if (pin == pinned_.values.end())
      return std::min(never, saved + from(value, *made_[value])[read_[value]]);
    const int64_t first = std::min(never, saved + cost(value, *made_[value], pin->second));
    return std::min(never, first + from(value, pin->second)[read_[value]]);
  }

  /// Counts the values that no operator from `op` on makes or reads, but did before.
  int64_t cost_of_settled(OperatorId op) {
    const Operator& last = graph_.operators[op - 1];
    std::vector<ValueId> touched = last.reads();
    touched.insert(touched.end(), last.outputs.begin(), last.outputs.end());
    int64_t sum = 0;
    for (const ValueId value : touched)
      if (readers_[value].empty() || readers_[value].back() < op)
        sum = std::min(never, sum + cost_of(value));
    return sum;
  }

  void choose(OperatorId op, int64_t cost_so_far) {
    if (op > 0) cost_so_far += cost_of_settled(op);
    if (cost_so_far >= best_) return;
    if (op == static_cast<OperatorId>(graph_.operators.size())) {
      best_ = cost_so_far;
      return;
    }
    const Operator& called = graph_.operators[op];
    const std::vector<ValueId> operands = tensor_arguments(called);
    const std::vector<Set> before = read_;
    for (const Signature& signature : signatures_[op]) {
      for (size_t i = 0; i < operands.size(); ++i)
        read_[operands[i]] |= bit(operands[i], signature.operands[i]);
      for (size_t i = 0; i < called.outputs.size(); ++i)
        made_[called.outputs[i]] = signature.results[i];
      choose(op + 1, cost_so_far + computed(called, signature));
      read_ = before;
    }
  }

  /// Forward, and twice as much backward.
  int64_t computed(const Operator& op, const Signature& signature) const {
    const auto is_split = [](const Layout& layout) { return layout.is_split(); };
    const bool is_shared = std::ranges::any_of(signature.operands, is_split) ||
                           std::ranges::any_of(signature.results, is_split);
    const auto whole = static_cast<int64_t>(std::llround(forward_flops(graph_, op, batch_)));
    return 3 * whole / (is_shared ? parts_ : 1);
  }

  const Graph& graph_;
  const int64_t batch_;
  const int parts_;
  const int64_t microbatches_;
  const Costs costs_;
  const PinnedLayouts pinned_;
  std::vector<bool> depends_, has_gradient_, is_weight_;
  bool has_loss_ = false;
  std::vector<Layout> ends_of_first_{Layout::identical()};
  std::vector<Saved> saved_;
  std::vector<std::vector<Layout>> layouts_;  // that a value can be held in
  std::vector<std::optional<Layout>> made_;   // none of a parameter, which is kept as is best
  std::vector<Set> read_;                     // so far
  const std::vector<std::vector<OperatorId>> readers_;
  std::vector<std::vector<Signature>> signatures_;
  std::map<std::pair<ValueId, Layout>, std::vector<int64_t>> known_costs_;
  int64_t best_ = never;
};

}  // namespace

int64_t moved(const Layout& from, const Layout& to, int64_t bytes, bool has_gradient, int parts) {
  const int64_t back = has_gradient ? sent(to.gradient(), from.gradient(), bytes, parts) : 0;
  return 1000 * (sent(from, to, bytes, parts) + back);
}

std::optional<int64_t> cheapest_cost(const Graph& graph, const Pins& pins, int64_t batch, int parts,
                                     int64_t microbatches, FirstOutput first) {
  return Exhaustive(graph, pins, batch, parts, microbatches, first).cheapest();
}

}  // namespace penstock::sharding::testing
