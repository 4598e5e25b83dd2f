#include "launch/placement.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace penstock {

namespace {

using Cores = std::vector<LogicalCore>;

/// Those that are allowed, node by node.
Cores usable_cores(const Cores& machine, const CoreClaim& claim) {
  Cores allowed;
  for (const LogicalCore& core : machine)
    if (claim.allowed.contains(core.id)) allowed.push_back(core);
  std::ranges::sort(allowed, {}, [](const LogicalCore& core) {
    return std::tuple(core.node, core.core, core.id);
  });
  return allowed;
}

std::vector<int> ids_of(const Cores& cores) {
  std::vector<int> ids;
  for (const LogicalCore& core : cores) ids.push_back(core.id);
  return ids;
}

Cores piece(const Cores& cores, size_t begin, size_t count) {
  const auto first = cores.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

/// Share `index` of `count` equal ones. First each node is cut into whole shares, then what is left
/// of all nodes:
///   cores  0 1 2 3 4 | 5 6 7 8 9     3 shares of 3: 0 1 2 | 5 6 7, and 3 4 8 from both
std::vector<int> share_of(const Cores& cores, int index, int count) {
  const size_t each = cores.size() / static_cast<size_t>(count);
  if (each == 0) return {cores[static_cast<size_t>(index) % cores.size()].id};
  std::map<int, Cores> nodes;
  for (const LogicalCore& core : cores) nodes[core.node].push_back(core);
  auto wanted = static_cast<size_t>(index);
  Cores left;
  for (const auto& [node, own] : nodes) {
    const size_t whole = own.size() / each;
    if (wanted < whole) return ids_of(piece(own, wanted * each, each));
    wanted -= whole;
    const Cores rest = piece(own, whole * each, own.size() - whole * each);
    left.insert(left.end(), rest.begin(), rest.end());
  }
  return ids_of(piece(left, wanted * each, each));
}

}  // namespace

std::vector<int> cores_of_rank(const std::vector<LogicalCore>& machine,
                               const std::vector<CoreClaim>& claims, int rank) {
  const std::vector<int> own = ids_of(usable_cores(machine, claims.at(static_cast<size_t>(rank))));
  if (own.empty()) return {};
  int index = 0, count = 0;
  for (size_t other = 0; other < claims.size(); ++other) {
    if (ids_of(usable_cores(machine, claims[other])) != own) continue;
    if (static_cast<int>(other) < rank) ++index;
    ++count;
  }
  return share_of(usable_cores(machine, claims[static_cast<size_t>(rank)]), index, count);
}

}  // namespace penstock
