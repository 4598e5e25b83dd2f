#include "graph/sharding/sizes.hpp"

#include <algorithm>

#include "graph/operators/facts.hpp"
#include "graph/operators/table.hpp"

namespace penstock::sharding {
namespace {

using Sharding = OperatorTraits::Sharding;

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

}  // namespace

std::vector<Expression> local_sizes(const Layout& layout, std::vector<Expression> sizes,
                                    int parts) {
  if (!layout.is_split()) return sizes;
  Expression& size = sizes[layout.dimension()];
  size = Expression::apply("FloorDiv", {size, parts});
  return sizes;
}

void set_sizes(const Graph& local, Operator& op, const Signature& signature, int parts) {
  const auto is_split = [](const Layout& layout) { return layout.is_split(); };
  if (std::ranges::none_of(signature.results, is_split)) return;
  const Sharding sharding = traits_of(op).sharding;
  if (sharding == Sharding::pieces) set_pieces(local, op);
  if (signature.results.front().dimension() == 1) set_groups(op, parts);
  if (sharding != Sharding::view && sharding != Sharding::expanded) return;
  if (ArgumentValue* size = find(op, {"size", "shape"})) *size = local.values[op.outputs[0]].shape;
}

}  // namespace penstock::sharding
