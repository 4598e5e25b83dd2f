#include "graph/sharding/local_graph.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "graph/analysis/analysis.hpp"
#include "graph/operators/facts.hpp"
#include "graph/operators/table.hpp"
#include "graph/sharding/collectives.hpp"

namespace penstock::sharding {
namespace {

using Sharding = OperatorTraits::Sharding;

/// Dense, in the order of dimensions that the whole tensor has.
void split_stored(StoredTensor& tensor, const Layout& layout, int parts) {
  tensor.sums_over_parts = layout.kind() == Layout::Kind::replicated;
  if (!layout.is_split()) return;
  tensor.sizes = local_shape(layout, tensor.sizes, parts);
  std::vector<size_t> order(tensor.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return tensor.strides[a] < tensor.strides[b]; });
  int64_t stride = 1;
  std::vector<int64_t> strides(order.size());
  for (const size_t dimension : order) {
    strides[dimension] = stride;
    stride *= tensor.sizes[dimension];
  }
  tensor.strides = strides;
  tensor.storage_offset = 0;
  tensor.file.clear();
}

ArgumentValue* find(Operator& op, std::initializer_list<std::string_view> names) {
  for (Argument& argument : op.arguments)
    if (std::ranges::find(names, argument.name) != names.end()) return &argument.value;
  return nullptr;
}

void set_pieces(const Graph& local, Operator& op) {
  ArgumentValue* sizes = find(op, {"split_size", "split_sizes"});
  if (!sizes) return;
  const auto rank = static_cast<int64_t>(local.values[op.outputs[0]].shape.size());
  const auto given = static_cast<int64_t>(number(op, "dim", 0));
  const int64_t dimension = given < 0 ? given + rank : given;
  std::vector<Expression> own;
  for (const ValueId value : op.outputs) own.push_back(local.values[value].shape[dimension]);
  if (std::holds_alternative<std::vector<Expression>>(*sizes))
    *sizes = own;
  else
    *sizes = own.front();
}

/// Channels are split by whole groups.
void set_groups(Operator& op, int parts) {
  ArgumentValue* groups = find(op, {"groups", "num_groups"});
  auto* number = groups ? std::get_if<int64_t>(groups) : nullptr;
  if (number && *number > 1) *number /= parts;
}

/// The sizes of a part; expressions in the batch stay such.
std::vector<Expression> local_sizes(const Layout& layout, std::vector<Expression> sizes,
                                    int parts) {
  if (!layout.is_split()) return sizes;
  Expression& size = sizes[layout.dimension()];
  size = Expression::apply("FloorDiv", {size, parts});
  return sizes;
}

/// Puts the sizes of the operator's results, which `local` has as they are of a part, into its
/// arguments: of views, expansions, and what cuts into pieces; and the groups that a part has.
void set_sizes(const Graph& local, Operator& op, const Signature& signature, int parts) {
  const auto is_split = [](const Layout& layout) { return layout.is_split(); };
  if (std::ranges::none_of(signature.results, is_split)) return;
  const Sharding sharding = traits_of(op).sharding;
  if (sharding == Sharding::pieces) set_pieces(local, op);
  if (signature.results.front().dimension() == 1) set_groups(op, parts);
  if (sharding != Sharding::view && sharding != Sharding::expanded) return;
  if (ArgumentValue* size = find(op, {"size", "shape"})) *size = local.values[op.outputs[0]].shape;
}

class Builder {
 public:
  Builder(const Graph& whole, const Completion& completion)
      : whole_(whole), completion_(completion), has_gradient_(analyse(whole).requires_grad) {
    local_ = {whole, completion.tensors};
    Graph& graph = local_.graph;
    graph.operators.clear();
    graph.markers.clear();
    graph.example_batch = graph.min_batch = graph.max_batch = completion.batch;
    for (size_t i = 0; i < graph.tensors.size(); ++i)
      split_stored(graph.tensors[i], completion.tensors[i], completion.parts);
    for (ValueId value = 0; value < static_cast<ValueId>(graph.values.size()); ++value) {
      const int tensor = graph.values[value].tensor;
      if (graph.values[value].kind != Value::Kind::intermediate)
        hold(value, tensor < 0 ? Layout::identical() : completion.tensors[tensor]);
    }
  }

  LocalGraph run() {
    const auto count = static_cast<OperatorId>(whole_.operators.size());
    for (OperatorId op = 0; op <= count; ++op) {
      while (has_next(op) && ends_producer(conversions_[next_])) convert();
      if (std::ranges::binary_search(whole_.markers, op))
        local_.graph.markers.push_back(static_cast<OperatorId>(local_.graph.operators.size()));
      while (has_next(op)) convert();
      if (op < count) add(op);
    }
    for (size_t i = 0; i < local_.graph.outputs.size(); ++i) end(local_.graph.outputs[i], i);
    for (BufferUpdate& update : local_.graph.updates) update.value = whole(update.value);
    return std::move(local_);
  }

 private:
  ValueId held(ValueId value, const Layout& layout) const { return held_.at({value, layout}); }
  ValueId whole(ValueId value) const { return held(value, Layout::identical()); }

  void end(Output& output, size_t index) const {
    auto* tensor = std::get_if<TensorRef>(&output.value);
    if (!tensor) return;
    const Layout& layout = completion_.outputs[index];
    tensor->value = held(tensor->value, layout);
    if (layout.is_split()) output.held = layout.str();
  }

  /// The value keeps its place, with the shape of a part.
  void hold(ValueId value, const Layout& layout) {
    Value& own = local_.graph.values[value];
    own.shape = local_sizes(layout, whole_.values[value].shape, completion_.parts);
    held_[{value, layout}] = value;
  }

  void append(Operator op) {
    for (const ValueId value : op.outputs)
      if (value >= 0)
        local_.graph.values[value].producer =
            static_cast<OperatorId>(local_.graph.operators.size());
    local_.graph.operators.push_back(std::move(op));
  }

  /// Is another conversion done before this operator?
  bool has_next(OperatorId op) const {
    return next_ < conversions_.size() && conversions_[next_].before == op;
  }

  /// A conversion right behind the operator that made the value, that leaves less of it or ends a
  /// sum, belongs to that operator's module; others belong to their reader's. A cut between the two
  /// is then crossed by the fewest bytes. What a buffer becomes nothing reads.
  bool ends_producer(const Converted& each) const {
    const OperatorId producer = whole_.values[each.value].producer;
    if (producer < 0 || each.before != producer + 1 || held(each.value, each.from) != each.value)
      return false;
    return updates_.contains(each.value) || reduces(conversion(each.from, each.to).forward);
  }

  void convert() {
    const Converted& each = conversions_[next_++];
    const Conversion c = conversion(each.from, each.to);
    const ValueId from = held(each.value, each.from);
    const bool changes = c.backward != Step::keep && has_gradient_[each.value];
    if (c.forward == Step::keep && !changes) {
      held_[{each.value, each.to}] = from;
      return;
    }
    Operator op = conversion_operator(c, from, each.again);
    const OperatorId last = static_cast<OperatorId>(whole_.operators.size()) - 1;
    const OperatorId at = ends_producer(each) ? each.before - 1 : std::min(each.before, last);
    op.modules = whole_.operators[at].modules;
    op.name = unused_name(each);
    op.outputs = {add_value(each, op.name)};
    held_[{each.value, each.to}] = op.outputs.front();
    append(std::move(op));
  }

  std::string unused_name(const Converted& each) const {
    std::string name = whole_.values[each.value].name + "_as_" + std::string(each.to.str());
    std::erase_if(name, [](char c) { return c == '(' || c == ')' || c == ' '; });
    std::ranges::replace(name, ',', '_');
    return unused_name(std::move(name));
  }
  std::string unused_name(std::string name) const {
    const auto is_taken = [&](const Value& value) { return value.name == name; };
    while (std::ranges::any_of(local_.graph.values, is_taken)) name += "_";
    return name;
  }

  ValueId add_value(const Converted& each, const std::string& name) {
    Value value = whole_.values[each.value];
    value.name = name;
    value.kind = Value::Kind::intermediate;
    value.tensor = -1;
    value.shape = local_sizes(each.to, value.shape, completion_.parts);
    local_.graph.values.push_back(std::move(value));
    return static_cast<ValueId>(local_.graph.values.size()) - 1;
  }

  void add(OperatorId id) {
    Operator op = whole_.operators[id];
    const Signature& signature = completion_.operators[id];
    op.original = id;
    op.by_part = is_random(op) && !signature.results.empty() && signature.results[0].is_split();
    if (signature == Signature()) return;  // an assertion, or nothing reads or is given
    for (size_t i = 0; i < op.outputs.size(); ++i)
      if (op.outputs[i] >= 0) hold(op.outputs[i], signature.results[i]);
    set_sizes(local_.graph, op, signature, completion_.parts);
    if (!signature.operands.empty() && signature.operands[0].is_split())
      op = on_part(op, signature.operands[0]);
    read_held(op, signature);
    if (traits_of(op).sharding == Sharding::mean && signature.operands[0].is_split() &&
        signature.results[0] == Layout::partial())
      op = append_means_of_parts(std::move(op));
    append(std::move(op));
  }

  /// Operators that a part can only compute in another form.
  Operator on_part(const Operator& op, const Layout& first) const {
    const Expression& size = whole_.values[tensor_arguments(op)[0]].shape[first.dimension()];
    const Sharding sharding = traits_of(op).sharding;
    if (sharding == Sharding::embedding && first.dimension() == 0)
      return embedding_of_rows(op, first, size);
    return sharding == Sharding::classes ? cross_entropy_of_classes(op, first, size) : op;
  }

  /// The mean of the whole is the sum of the parts' means, each divided by the number of parts.
  Operator append_means_of_parts(Operator mean) {
    Operator share = mean;
    share.target = "aten::div";
    share.overload = "Scalar";
    Value value = local_.graph.values[mean.outputs.front()];
    mean.name = value.name = unused_name(value.name + "_of_part");
    local_.graph.values.push_back(std::move(value));
    mean.outputs = {static_cast<ValueId>(local_.graph.values.size()) - 1};
    share.arguments = {{"self", TensorRef{mean.outputs.front()}},
                       {"other", int64_t{completion_.parts}}};
    append(std::move(mean));
    return share;
  }

  /// Has the operator read its operands as its signature says.
  void read_held(Operator& op, const Signature& signature) const {
    auto layout = signature.operands.begin();
    for (Argument& argument : op.arguments) {
      if (auto* tensor = std::get_if<TensorRef>(&argument.value))
        tensor->value = held(tensor->value, *layout++);
      if (auto* list = std::get_if<TensorList>(&argument.value))
        for (auto& value : list->values)
          if (value) value = held(*value, *layout++);
    }
  }

  /// In order, those that are done at the end for what buffers become as soon as these are made: a
  /// buffer is read and updated in one stage.
  std::vector<Converted> conversions() const {
    std::vector<Converted> all = completion_.conversions;
    std::map<ValueId, OperatorId> held_from;
    for (Converted& each : all) {
      const auto from =
          held_from.try_emplace(each.value, whole_.values[each.value].producer + 1).first;
      if (each.before == static_cast<OperatorId>(whole_.operators.size()) &&
          updates_.contains(each.value))
        each.before = from->second;
      from->second = each.before;
    }
    std::ranges::stable_sort(all, {}, &Converted::before);
    return all;
  }

  static std::set<ValueId> updated(const Graph& whole) {
    std::set<ValueId> values;
    for (const BufferUpdate& update : whole.updates) values.insert(update.value);
    return values;
  }

  const Graph& whole_;
  const Completion& completion_;
  const std::set<ValueId> updates_ = updated(whole_);  // what buffers become
  const std::vector<Converted> conversions_ = conversions();
  const std::vector<bool> has_gradient_;
  LocalGraph local_;
  std::map<std::pair<ValueId, Layout>, ValueId> held_;  // by value of the whole graph
  size_t next_ = 0;                                     // conversion
};

}  // namespace

LocalGraph local_graph(const Graph& whole, const Completion& completion) {
  return Builder(whole, completion).run();
}

}  // namespace penstock::sharding
