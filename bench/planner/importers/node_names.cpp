#include "bench/planner/importers/node_names.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace penstock {

void NodeNames::add(const std::string& name, std::string_view place) {
  if (!numbers_.emplace(name, count()).second) {
    throw InputError(place, fmt::format("a second node {}", name),
                     "Give every node a name of its own.");
  }
  names_.push_back(name);
}

int NodeNames::find(const std::string& name, std::string_view place) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) {
    const std::string near = did_you_mean(name, names_);
    throw InputError(place, fmt::format("there is no node {}", name),
                     near.empty() ? "An edge joins two nodes of the file." : near);
  }
  return found->second;
}

void NodeNames::refuse_cycles(const Dag& dag, std::string_view file) const {
  constexpr size_t shown = 5;
  const std::vector<int> nodes = nodes_in_cycle(dag);
  if (nodes.empty()) return;
  std::string text;
  for (size_t i = 0; i < nodes.size() && i < shown; ++i)
    text += (i > 0 ? ", " : "") + names_[nodes[i]];
  if (nodes.size() > shown) text += ", …";
  throw InputError(file, fmt::format("edges lead in a circle through {}", text),
                   "Remove an edge: a node runs after all that it has an edge from.");
}

}  // namespace penstock
