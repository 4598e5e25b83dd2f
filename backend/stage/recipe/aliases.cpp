#include "backend/stage/recipe/aliases.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "graph/operators/facts.hpp"

namespace penstock {
namespace {

bool is_constant(const Analysis& analysis, const Operator& op) {
  return std::ranges::all_of(op.outputs, [&](ValueId value) {
    return value < 0 || analysis.constant[static_cast<size_t>(value)];
  });
}

void refuse_parameter(const Graph& graph, const Operator& op, const Value& value) {
  if (value.kind != Value::Kind::tensor) return;
  const StoredTensor& stored = graph.tensors[static_cast<size_t>(value.tensor)];
  if (stored.kind != StoredTensor::Kind::parameter) return;
  throw InputError(graph.path,
                   describe(op) + " changes the parameter `" + stored.name + "` in place",
                   "export the model with tools/export_model.py");
}

}  // namespace

Aliases::Aliases(const Graph& graph, const Analysis& analysis,
                 const std::vector<PreparedOperator>& operators)
    : roots_(graph.values.size()) {
  std::iota(roots_.begin(), roots_.end(), 0);
  for (const PreparedOperator& prepared : operators) {
    const Operator& op = prepared.op();
    const std::vector<ValueId> reads = op.reads();
    ValueId source = -1;
    if (!prepared.writes().empty() && prepared.returns_written()) source = prepared.writes()[0];
    if (is_view(op) && !reads.empty()) source = reads[0];
    for (const ValueId output : op.outputs) {
      if (output >= 0 && source >= 0) roots_[static_cast<size_t>(output)] = root(source);
    }
    for (const ValueId written : prepared.writes()) {
      const Value& memory = graph.values[static_cast<size_t>(root(written))];
      refuse_parameter(graph, op, memory);
      const bool stored = memory.kind == Value::Kind::tensor;
      if (stored || !is_constant(analysis, op)) changed_.insert(root(written));
    }
  }
}

}  // namespace penstock
