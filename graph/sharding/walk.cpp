#include "graph/sharding/walk.hpp"

#include <algorithm>
#include <bit>

#include "graph/sharding/conversions.hpp"

namespace penstock::sharding {

Way cheapest_way(const Choices& choices, Held held, int to) {
  Way best{-1, 0};
  for (Held rest = held; rest != 0; rest &= rest - 1) {
    const int from = std::countr_zero(rest);
    const int64_t cost = choices.conversion_costs[from][to];
    if (best.from < 0 || cost < best.cost) best = {from, cost};
  }
  return best;
}

bool Walk::convert(OperatorId before, ValueId value, const Layout& to) {
  const Choices& choices = problem.values[value];
  const Way way = cheapest_way(choices, held[value], choices.place(to));
  if (way.cost == impossible) return false;
  cost += way.cost;
  if (record) record->conversions.push_back({before, value, choices.layouts[way.from], to});
  return true;
}

void Walk::keep(ValueId tensor, const Layout& layout) {
  held[tensor] = problem.values[tensor].bit(layout);
  cost += problem.keeping_cost(tensor, layout);
  if (record) record->tensors[problem.graph.values[tensor].tensor] = layout;
}

void Walk::read_constant(OperatorId op, ValueId value, const Layout& layout) {
  if (!record || layout == Layout::identical()) return;
  const Converted converted{op, value, Layout::identical(), layout};
  const auto is_same = [&](const Converted& each) {
    return each.value == value && each.to == layout;
  };
  if (std::ranges::none_of(record->conversions, is_same)) record->conversions.push_back(converted);
}

bool Walk::read(OperatorId op, ValueId value, const Layout& layout) {
  if (!problem.varies[value]) {
    read_constant(op, value, layout);
    return true;
  }
  if (held[value] == 0) {
    const auto pin = problem.pinned.tensors.find(problem.graph.values[value].tensor);
    const bool is_terms = layout.kind() == Layout::Kind::partial;
    keep(value, pin != problem.pinned.tensors.end() ? pin->second
                : is_terms                          ? Layout::identical()
                                                    : layout);
  }
  const Held bit = problem.values[value].bit(layout);
  const bool is_possible = (held[value] & bit) != 0 || convert(op, value, layout);
  held[value] |= bit;
  return is_possible;
}

bool Walk::give(OperatorId op, ValueId value, const Layout& layout) {
  if (value < 0 || !problem.varies[value]) return true;
  held[value] = problem.values[value].bit(layout);
  const auto pin = problem.pinned.values.find(value);
  if (pin == problem.pinned.values.end() || pin->second == layout) return true;
  const bool is_possible = convert(op + 1, value, pin->second);
  held[value] = problem.values[value].bit(pin->second);
  return is_possible;
}

bool Walk::take(OperatorId op, const Option& option) {
  const Node& node = problem.nodes[op];
  for (size_t i = 0; i < node.operands.size(); ++i)
    if (!read(op, node.operands[i], option.signature.operands[i])) return false;
  for (size_t i = 0; i < node.results.size(); ++i)
    if (!give(op, node.results[i], option.signature.results[i])) return false;
  cost += option.cost;
  return true;
}

}  // namespace penstock::sharding
