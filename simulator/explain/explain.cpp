#include "simulator/explain/explain.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "simulator/engine/compile.hpp"
#include "simulator/engine/deadlock.hpp"

namespace penstock {

Explanation explain(const Program& lowered, const Costs& costs, const Network& network) {
  const CompiledProgram compiled = compile(lowered, costs, network);
  const EngineResult times = run_engine(compiled, network, true);
  if (!times.finished) {
    throw InputError("program", "deadlock: " + deadlock_report(lowered, compiled, times),
                     "Put each SEND before the action that waits for what it sets off.");
  }
  Explanation result{.path = critical_path(lowered, compiled, times, network),
                     .idle = idle_parts(lowered, costs, network)};
  const std::vector<double>& rank_s = result.path.rank_s;
  result.limiting_rank = static_cast<int>(std::ranges::max_element(rank_s) - rank_s.begin());
  return result;
}

}  // namespace penstock
