// Finding an operator's entry, and what families of names say of operators that have none.
#include <iterator>
#include <unordered_map>

#include "graph/operators/table.hpp"

namespace penstock {
namespace {

using TraitsByName = std::unordered_map<std::string_view, const OperatorTraits*>;

void add_names(TraitsByName& by_name, const OperatorGroup& group) {
  std::string_view rest = group.names;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    by_name.emplace(rest.substr(0, end), &group.traits);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

TraitsByName index_table() {
  TraitsByName by_name;
  for (const OperatorGroup& group : operator_table()) add_names(by_name, group);
  return by_name;
}

struct Family {
  std::string_view part;  // of the name
  OperatorClass kind;
};
/// The first whose part the name has: `_log_softmax_backward` is a softmax.
constexpr Family families[] = {
    {"attention", OperatorClass::attention},
    {"conv", OperatorClass::convolution},
    {"norm", OperatorClass::normalisation},
    {"softmax", OperatorClass::normalisation},
    {"cross_entropy", OperatorClass::normalisation},
    {"embedding", OperatorClass::lookup},
    {"index", OperatorClass::lookup},
    {"gather", OperatorClass::lookup},
    {"scatter", OperatorClass::lookup},
};

constexpr OperatorTraits unknown;

const OperatorTraits& traits_or_unknown(std::string_view name) {
  const OperatorTraits* found = find_traits(name);
  return found ? *found : unknown;
}

std::string_view without_namespace(const Operator& op) {
  const std::string_view target = op.target;
  const size_t colons = target.find("::");
  return colons == std::string_view::npos ? target : target.substr(colons + 2);
}

}  // namespace

const OperatorTraits* find_traits(std::string_view name) {
  static const TraitsByName by_name = index_table();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

const OperatorTraits& traits_of(const Operator& op) {
  const bool is_known = op.target.starts_with("aten::") || op.target.starts_with("penstock::");
  return is_known ? namesake_of(op) : unknown;
}

const OperatorTraits& effects_of(const Operator& op) {
  return op.target.starts_with("prims::") ? namesake_of(op) : traits_of(op);
}

const OperatorTraits& namesake_of(const Operator& op) {
  return traits_or_unknown(without_namespace(op));
}

OperatorClass class_of(const Operator& op) {
  if (const auto time = namesake_of(op).time) return *time;
  const std::string_view name = without_namespace(op);
  for (const Family& family : families)
    if (name.find(family.part) != std::string_view::npos) return family.kind;
  return OperatorClass::elementwise;
}

bool has_functional_form(std::string_view in_place_name) {
  return !in_place_name.starts_with("_foreach") && !in_place_name.starts_with("_fused") &&
         traits_or_unknown(in_place_name).writes != OperatorTraits::Writes::unlike_functional;
}

}  // namespace penstock
