#include "graph/sharding/complete.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "graph/sharding/search.hpp"

namespace penstock::sharding {
namespace {

/// For a first search, whose completion says what the cheapest costs at most.
constexpr size_t narrow_width = 32;

constexpr int64_t max_weight_of_bytes = int64_t{1} << 61;

std::string pinned_operands(const Problem& problem, const Node& node) {
  std::vector<std::string> parameters;
  for (const ValueId value : node.operands) {
    const int tensor = problem.graph.values[value].tensor;
    const auto pin = problem.pinned.tensors.find(tensor);
    if (pin != problem.pinned.tensors.end())
      parameters.push_back(fmt::format("{} [{}] in {}", problem.graph.tensors[tensor].name,
                                       fmt::join(problem.graph.tensors[tensor].sizes, ", "),
                                       pin->second.str()));
  }
  return parameters.empty() ? "its weights held as pins want them"
                            : fmt::format("{}", fmt::join(parameters, " and "));
}

/// Nothing that the operator at which the search failed can do reads and gives weights as they are
/// pinned.
[[noreturn]] void refuse(const Problem& problem, OperatorId failed) {
  const bool ends = failed == static_cast<OperatorId>(problem.graph.operators.size());
  throw InputError(ends ? problem.graph.path : problem.graph.operators[failed].name,
                   fmt::format("{} cannot be computed in {} parts with {}",
                               ends ? "outputs" : problem.graph.operators[failed].target,
                               problem.parts, pinned_operands(problem, problem.nodes[failed])),
                   "Split along another dimension, or hold the parameter whole.");
}

/// The time's part of what was weighed, and the bytes of tensors that no operator reads, too.
Completion counted(const Problem& problem, Completion completion) {
  const Graph& graph = problem.graph;
  int64_t read_bytes = 0;
  std::vector<bool> is_read(graph.tensors.size(), false);
  for (const Node& node : problem.nodes)
    for (const ValueId value : node.operands)
      if (problem.is_parameter(value)) is_read[graph.values[value].tensor] = true;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].kind != StoredTensor::Kind::parameter) continue;
    const int64_t bytes = problem.state_bytes(graph.tensors[i], completion.tensors[i]);
    completion.state_bytes += bytes;
    if (is_read[i]) read_bytes += bytes;
  }
  completion.cost = completion.weighed - problem.costs.state_byte * read_bytes -
                    problem.costs.saved_byte * completion.saved_bytes;
  return completion;
}

/// More than any completion holds.
int64_t all_bytes(const Graph& graph, int64_t batch) {
  int64_t bytes = 1;
  for (const StoredTensor& tensor : graph.tensors) bytes += tensor.bytes() * state_bytes_per_byte;
  const auto readers = graph.consumers();
  for (size_t i = 0; i < readers.size(); ++i)  // as it is made, and converted for each reader
    bytes += graph.values[i].bytes(batch) * static_cast<int64_t>(readers[i].size() + 2);
  return bytes;
}

void check_prices(const Graph& graph, const Costs& costs, int64_t batch) {
  const int64_t limit = max_price(graph, batch);
  for (const int64_t price : {costs.state_byte, costs.saved_byte})
    if (price < 0 || price > limit)
      throw InputError(graph.path,
                       fmt::format("a price of memory is from 0 to {}, not {}", limit, price),
                       "Memory decides alone with less.");
}

}  // namespace

int64_t max_price(const Graph& graph, int64_t batch) {
  return max_weight_of_bytes / all_bytes(graph, batch);
}

Completion complete(const Graph& graph, const Pins& pins, int64_t batch, int parts,
                    int64_t microbatches, FirstOutput first_output) {
  check_prices(graph, pins.costs, batch);
  const Problem problem = make_problem(graph, pins, batch, parts, microbatches, first_output);
  const Found first = search(problem, narrow_width, INT64_MAX);
  if (first.completion && first.completion->exact) return counted(problem, *first.completion);
  Found wide =
      search(problem, beam_width, first.completion ? first.completion->weighed : INT64_MAX);
  if (!wide.completion && !first.completion) refuse(problem, wide.failed);
  Completion best = wide.completion ? *wide.completion : *first.completion;
  if (wide.completion && first.completion) best.states += first.completion->states;
  return counted(problem, std::move(best));
}

bool holds_at(const Graph& graph, const Pins& pins, const Completion& completion, int64_t batch) {
  const int parts = completion.parts;
  for (size_t id = 0; id < graph.operators.size(); ++id) {
    const Signature& signature = completion.operators[id];
    if (signature == Signature()) continue;
    const auto known = signatures(graph, graph.operators[id], batch, parts, pins.random_by_part);
    if (std::ranges::find(known, signature) == known.end()) return false;
  }
  return std::ranges::all_of(completion.conversions, [&](const Converted& each) {
    Shape shape;
    for (const Expression& size : graph.values[each.value].shape) shape.push_back(size.at(batch));
    return fits(each.from, shape, parts) && fits(each.to, shape, parts);
  });
}

bool splits(const Completion& completion) {
  return std::ranges::any_of(completion.tensors, &Layout::is_split) ||
         std::ranges::any_of(completion.operators, [](const Signature& signature) {
           return std::ranges::any_of(signature.results, &Layout::is_split);
         });
}

bool same_layouts(const Completion& one, const Completion& other) {
  return one.parts == other.parts && one.tensors == other.tensors &&
         one.operators == other.operators && one.conversions == other.conversions &&
         one.outputs == other.outputs;
}

}  // namespace penstock::sharding
