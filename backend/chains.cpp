#include "backend/chains.hpp"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include "graph/facts.hpp"

namespace penstock {

void mark_step_chains(const Analysis& analysis, const std::vector<PreparedOperator>& operators,
                      std::vector<ValueRole>& roles) {
  const auto in_chain = [&](const PreparedOperator& prepared) {
    return std::ranges::any_of(prepared.op().outputs, [&](ValueId v) {
      return v >= 0 && roles[static_cast<size_t>(v)] == ValueRole::microbatch_chain &&
             analysis.parameter_derived[static_cast<size_t>(v)];
    });
  };
  std::map<ValueId, int> length;
  for (const PreparedOperator& prepared : operators | std::views::filter(in_chain)) {
    int longest = 0;
    for (const ValueId v : prepared.op().reads()) longest = std::max(longest, length[v]);
    const int added = is_view(prepared.op()) && longest > 0 ? 0 : 1;
    for (const ValueId v : prepared.op().outputs) length[v] = longest + added;
  }
  std::set<ValueId> feeds_longer;
  for (const PreparedOperator& prepared :
       operators | std::views::reverse | std::views::filter(in_chain)) {
    const auto marked = [&](ValueId v) { return length[v] >= 2 || feeds_longer.contains(v); };
    if (!std::ranges::any_of(prepared.op().outputs, marked)) continue;
    for (const ValueId v : prepared.op().outputs) {
      if (v >= 0) roles[static_cast<size_t>(v)] = ValueRole::step_chain;
    }
    for (const ValueId v : prepared.op().reads()) feeds_longer.insert(v);
  }
}

}  // namespace penstock
