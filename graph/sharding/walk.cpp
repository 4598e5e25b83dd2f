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

bool Walk::convert(OperatorId before, ValueId value, int to) {
  const Choices& choices = problem.of(value);
  const Way way = cheapest_way(choices, held[value], to);
  if (way.cost == impossible) return false;
  cost += way.cost;
  if (!record) return true;
  const Conversion made = conversion(choices.layouts[way.from], choices.layouts[to]);
  record->conversions.push_back(
      {before, value, made.from, made.to, problem.gathers_again(value, made)});
  record->saved_bytes += problem.saved_bytes(value, made);
  return true;
}

void Walk::keep(ValueId tensor, int place) {
  const Choices& choices = problem.of(tensor);
  held[tensor] = Held{1} << place;
  cost += choices.holding_costs[place];
  if (!record) return;
  const int index = problem.graph.values[tensor].tensor;
  record->tensors[index] = choices.layouts[place];
}

void Walk::read_constant(OperatorId op, ValueId value, const Layout& layout) {
  if (!record || layout == Layout::identical()) return;
  const Converted converted{op, value, Layout::identical(), layout};
  const auto is_same = [&](const Converted& each) {
    return each.value == value && each.to == layout;
  };
  if (std::ranges::none_of(record->conversions, is_same)) record->conversions.push_back(converted);
}

bool Walk::read(OperatorId op, ValueId value, int place) {
  if (held[value] == 0) {
    const Choices& choices = problem.of(value);
    const bool is_terms = choices.layouts[place].kind() == Layout::Kind::partial;
    keep(value, problem.pin[value] >= 0 ? problem.pin[value]
                : is_terms              ? choices.place(Layout::identical())
                                        : place);
  }
  const Held bit = Held{1} << place;
  const bool is_possible = (held[value] & bit) != 0 || convert(op, value, place);
  held[value] |= bit;
  return is_possible;
}

bool Walk::give(OperatorId op, ValueId value, int place) {
  held[value] = Held{1} << place;
  const Choices& choices = problem.of(value);
  cost += choices.holding_costs[place];
  if (record) record->saved_bytes += problem.saved_bytes(value, choices.layouts[place]);
  const int pin = problem.pin[value];
  if (pin < 0 || pin == place) return true;
  const bool is_possible = convert(op + 1, value, pin);
  held[value] = Held{1} << pin;
  return is_possible;
}

bool Walk::take(OperatorId op, const Option& option) {
  const Node& node = problem.nodes[op];
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (option.operands[i] < 0)
      read_constant(op, node.operands[i], option.signature.operands[i]);
    else if (!read(op, node.operands[i], option.operands[i]))
      return false;
  }
  for (size_t i = 0; i < node.results.size(); ++i)
    if (option.results[i] >= 0 && !give(op, node.results[i], option.results[i])) return false;
  cost += option.cost;
  if (record) record->saved_bytes += option.saved_bytes;
  return true;
}

}  // namespace penstock::sharding
