#include "graph/sharding/problem.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "graph/analysis/analysis.hpp"
#include "graph/operators/facts.hpp"
#include "graph/operators/flops.hpp"
#include "graph/sharding/axes.hpp"
#include "graph/sharding/blocks.hpp"
#include "graph/sharding/collectives.hpp"
#include "graph/sharding/conversions.hpp"

namespace penstock::sharding {
namespace {

/// Forward, and twice as many backward.
constexpr int64_t passes = 3;

/// FLOPs of a cross entropy for each logit.
constexpr int64_t loss_flops = 5;

std::vector<bool> computed_from_parameters(const Graph& graph) {
  std::vector<bool> varies(graph.values.size(), false);
  for (size_t i = 0; i < varies.size(); ++i)
    varies[i] = graph.values[i].tensor >= 0 &&
                graph.tensors[graph.values[i].tensor].kind == StoredTensor::Kind::parameter;
  for (const Operator& op : graph.operators) {
    const auto reads = op.reads();
    if (std::ranges::none_of(reads, [&](ValueId value) { return varies[value]; })) continue;
    for (const ValueId value : op.outputs)
      if (value >= 0) varies[value] = true;
  }
  return varies;
}

bool is_skipped(const Operator& op, const std::vector<std::vector<OperatorId>>& readers) {
  return is_assertion(op) && std::ranges::all_of(op.outputs, [&](ValueId value) {
           return value < 0 || readers[value].empty();
         });
}

bool splits_any(const Signature& signature) {
  const auto is_split = [](const Layout& layout) { return layout.is_split(); };
  return std::ranges::any_of(signature.operands, is_split) ||
         std::ranges::any_of(signature.results, is_split);
}

/// The messages of a cross entropy of logits that are held so.
int64_t class_bytes_sent(const Problem& problem, ValueId logits, const Layout& held) {
  if (!held.is_split()) return 0;
  const Value& value = problem.graph.values[logits];
  return bytes_sent(Step::all_gather, class_bytes(value, held, problem.batch, problem.parts),
                    problem.parts);
}

std::vector<Option> options(const Problem& problem, const Operator& op) {
  const bool varies = std::ranges::any_of(
      op.outputs, [&](ValueId value) { return value >= 0 && problem.varies[value]; });
  const auto flops =
      static_cast<int64_t>(std::llround(forward_flops(problem.graph, op, problem.batch)));
  std::vector<Option> found;
  for (Signature& signature :
       signatures(problem.graph, op, problem.batch, problem.parts, problem.random_by_part)) {
    const int64_t shares = splits_any(signature) ? problem.parts : 1;
    const bool classes = traits_of(op).sharding == OperatorTraits::Sharding::classes;
    const int64_t sent = classes ? class_bytes_sent(problem, tensor_arguments(op).front(),
                                                    signature.operands.front())
                                 : 0;
    found.push_back(
        {std::move(signature), passes * flops / shares + problem.costs.sent_byte * sent});
    if (!varies) break;
  }
  return found;
}

int64_t conversion_cost(const Problem& problem, ValueId value, const Layout& from,
                        const Layout& to) {
  if (problem.is_weight[value] && from.is_split() && from != to) return impossible;
  const Conversion c = conversion(from, to);
  const int64_t bytes = problem.graph.values[value].bytes(problem.batch);
  const int64_t back =
      problem.has_gradient[value] ? bytes_sent(c.backward, bytes, problem.parts) : 0;
  const int64_t forward = bytes_sent(c.forward, bytes, problem.parts);
  const int64_t again = problem.gathers_again(value, c) ? forward : 0;
  return problem.costs.sent_byte * (forward + back + again) +
         problem.costs.saved_byte * problem.saved_bytes(value, c);
}

/// The gradient of a parameter that is kept in R is summed once a step.
int64_t holding_cost(const Problem& problem, ValueId value, const Layout& layout) {
  if (!problem.is_parameter(value))
    return problem.costs.saved_byte * problem.saved_bytes(value, layout);
  const StoredTensor& tensor = problem.graph.tensors[problem.graph.values[value].tensor];
  const bool is_summed = layout.kind() == Layout::Kind::replicated && problem.has_gradient[value];
  const int64_t sent = is_summed ? bytes_sent(Step::all_reduce, tensor.bytes(), problem.parts) : 0;
  return problem.costs.sent_byte * sent / problem.microbatches +
         problem.costs.state_byte * problem.state_bytes(tensor, layout);
}

/// The job's loss, of logits that are whole or split by classes; it saves as much as it reads.
std::vector<Option> options_of_loss(const Problem& problem, ValueId logits, const Option& whole) {
  const Value& value = problem.graph.values[logits];
  Shape shape;
  for (const Expression& size : value.shape) shape.push_back(size.at(problem.batch));
  if (shape.size() < 2) return {whole};
  std::vector<Layout> layouts = splits_of(shape, rank(shape) - 1, problem.parts);
  layouts.insert(layouts.begin(), Layout::identical());
  std::vector<Option> options(layouts.size(), whole);
  for (size_t i = 0; i < layouts.size(); ++i) {
    const int64_t shares = layouts[i].is_split() ? problem.parts : 1;
    options[i].signature.operands.front() = layouts[i];
    options[i].saved_bytes = value.bytes(problem.batch) / shares;
    options[i].cost = passes * loss_flops * value.elements(problem.batch) / shares +
                      problem.costs.saved_byte * options[i].saved_bytes +
                      problem.costs.sent_byte * class_bytes_sent(problem, logits, layouts[i]);
  }
  return options;
}

/// Outputs, and what buffers become, end whole, but for logits.
Node last_node(const Problem& problem, FirstOutput first) {
  const Graph& graph = problem.graph;
  Node node;
  for (const Output& output : graph.outputs)
    if (const auto* tensor = std::get_if<TensorRef>(&output.value))
      node.operands.push_back(tensor->value);
  for (const BufferUpdate& update : graph.updates) node.operands.push_back(update.value);
  const Option whole{{std::vector<Layout>(node.operands.size(), Layout::identical()), {}}, 0};
  const std::optional<ValueId> logits = graph.first_output();
  if (first == FirstOutput::logits && logits && problem.has_gradient[*logits])
    node.options = options_of_loss(problem, *logits, whole);
  else
    node.options = {whole};
  return node;
}

Choices choices(const Problem& problem, ValueId value, const std::set<Layout>& layouts) {
  Choices own{{layouts.begin(), layouts.end()}, {}, {}};
  for (const Layout& from : own.layouts) {
    own.holding_costs.push_back(holding_cost(problem, value, from));
    std::vector<int64_t>& costs = own.conversion_costs.emplace_back();
    for (const Layout& to : own.layouts) costs.push_back(conversion_cost(problem, value, from, to));
  }
  return own;
}

/// All that choices() of a value depend on.
using Alike = std::tuple<std::set<Layout>, int64_t, bool, bool, bool, Saved>;

Alike alike(const Problem& problem, ValueId value, const std::set<Layout>& layouts) {
  return {layouts,
          problem.graph.values[value].bytes(problem.batch),
          problem.has_gradient[value],
          problem.is_weight[value],
          problem.is_parameter(value),
          problem.saved[value]};
}

void share_choices(Problem& problem, const std::vector<std::set<Layout>>& layouts) {
  std::map<Alike, int> known;
  problem.choices_of.assign(layouts.size(), -1);
  for (ValueId value = 0; value < static_cast<ValueId>(layouts.size()); ++value) {
    if (!problem.varies[value]) continue;
    const auto [found, is_new] = known.emplace(alike(problem, value, layouts[value]),
                                               static_cast<int>(problem.choices.size()));
    if (is_new) problem.choices.push_back(choices(problem, value, layouts[value]));
    problem.choices_of[value] = found->second;
  }
}

std::vector<int> places(const Problem& problem, const std::vector<ValueId>& values,
                        const std::vector<Layout>& layouts) {
  std::vector<int> places;
  for (size_t i = 0; i < values.size(); ++i)
    places.push_back(
        values[i] >= 0 && problem.varies[values[i]] ? problem.of(values[i]).place(layouts[i]) : -1);
  return places;
}

void number_layouts(Problem& problem) {
  for (Node& node : problem.nodes)
    for (Option& option : node.options) {
      option.operands = places(problem, node.operands, option.signature.operands);
      option.results = places(problem, node.results, option.signature.results);
    }
  problem.pin.assign(problem.varies.size(), -1);
  for (ValueId value = 0; value < static_cast<ValueId>(problem.varies.size()); ++value) {
    if (!problem.varies[value]) continue;
    const auto tensor = problem.pinned.tensors.find(problem.graph.values[value].tensor);
    const auto made = problem.pinned.values.find(value);
    if (tensor != problem.pinned.tensors.end())
      problem.pin[value] = problem.of(value).place(tensor->second);
    else if (made != problem.pinned.values.end())
      problem.pin[value] = problem.of(value).place(made->second);
  }
}

void insert(std::vector<std::set<Layout>>& used, const std::vector<ValueId>& values,
            const std::vector<Layout>& layouts) {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] >= 0) used[values[i]].insert(layouts[i]);
}

bool have_room(const std::vector<std::set<Layout>>& used, const std::vector<ValueId>& values,
               const std::vector<Layout>& layouts) {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] >= 0 && used[values[i]].size() >= max_layouts &&
        !used[values[i]].contains(layouts[i]))
      return false;
  return true;
}

/// Layouts that signatures and pins speak of; leaves out signatures for which there is no bit left.
void choose_layouts(Problem& problem) {
  const Graph& graph = problem.graph;
  std::vector<std::set<Layout>> used(graph.values.size(),
                                     {Layout::identical(), Layout::replicated()});
  for (const auto& [value, layout] : problem.pinned.values) used[value].insert(layout);
  for (size_t i = 0; i < used.size(); ++i) {
    const auto pin = problem.pinned.tensors.find(graph.values[i].tensor);
    if (pin != problem.pinned.tensors.end()) used[i].insert(pin->second);
  }
  for (Node& node : problem.nodes)
    std::erase_if(node.options, [&](const Option& option) {
      if (!have_room(used, node.operands, option.signature.operands) ||
          !have_room(used, node.results, option.signature.results)) {
        problem.has_all_layouts = false;
        return true;
      }
      insert(used, node.operands, option.signature.operands);
      insert(used, node.results, option.signature.results);
      return false;
    });
  share_choices(problem, used);
}

}  // namespace

int Choices::place(const Layout& layout) const {
  const auto found = std::ranges::lower_bound(layouts, layout);
  return found != layouts.end() && *found == layout ? static_cast<int>(found - layouts.begin())
                                                    : -1;
}

bool Problem::is_parameter(ValueId value) const {
  return varies[value] && graph.values[value].tensor >= 0;
}

int64_t Problem::state_bytes(const StoredTensor& parameter, const Layout& layout) const {
  const int64_t own = parameter.bytes() / (layout.is_split() ? parts : 1);
  return parameter.requires_grad ? own * state_bytes_per_byte : own;
}

/// Terms of a sum are read by what saves nothing.
int64_t Problem::saved_bytes(ValueId made, const Layout& layout) const {
  if (!saved[made].is_saved || saved[made].is_view || is_weight[made]) return 0;
  if (layout.kind() == Layout::Kind::partial) return 0;
  return graph.values[made].bytes(batch) / (layout.is_split() ? parts : 1);
}

bool Problem::gathers_again(ValueId value, const Conversion& conversion) const {
  return gather_again && conversion.forward == Step::all_gather && saved[value].is_saved &&
         has_gradient[value] && !is_weight[value];
}

/// A slice is a view of what is there; of what is gathered again its part is saved as it was made.
int64_t Problem::saved_bytes(ValueId value, const Conversion& conversion) const {
  const int64_t bytes = graph.values[value].bytes(batch);
  if (!saved[value].is_saved || is_weight[value] || gathers_again(value, conversion)) return 0;
  if (bytes_sent(conversion.forward, bytes, parts) == 0) return 0;
  return bytes / (conversion.to.is_split() ? parts : 1);
}

Problem make_problem(const Graph& graph, const Pins& pins, int64_t batch, int parts,
                     int64_t microbatches, FirstOutput first) {
  Problem problem{.graph = graph,
                  .batch = batch,
                  .parts = parts,
                  .microbatches = microbatches,
                  .costs = pins.costs,
                  .random_by_part = pins.random_by_part,
                  .gather_again = pins.gathers_again,
                  .pinned = resolve(graph, pins, batch, parts),
                  .varies = computed_from_parameters(graph)};
  const Analysis analysis = analyse(graph);
  problem.has_gradient = analysis.requires_grad;
  problem.is_weight = analysis.parameter_derived;
  for (ValueId value = 0; value < static_cast<ValueId>(graph.values.size()); ++value) {
    const bool is_frozen = problem.varies[value] && analysis.constant[value];
    if (problem.is_parameter(value) || is_frozen) problem.is_weight[value] = true;
  }
  problem.saved = saved_values(graph, problem.has_gradient);
  std::erase_if(problem.pinned.values, [&](const auto& pin) { return !problem.varies[pin.first]; });
  const auto readers = graph.consumers();
  for (const Operator& op : graph.operators) {
    problem.nodes.push_back({tensor_arguments(op), op.outputs, {}});
    if (is_skipped(op, readers))
      problem.nodes.back() = {};
    else
      problem.nodes.back().options = options(problem, op);
  }
  problem.nodes.push_back(last_node(problem, first));
  leave_out_idle_blocks(problem);
  choose_layouts(problem);
  number_layouts(problem);
  return problem;
}

}  // namespace penstock::sharding
