#include "planner/model/turn_bytes.hpp"

#include <algorithm>
#include <map>

#include "simulator/memory/stage_parts.hpp"

namespace penstock {

namespace {

/// Bytes by the operator after whose backward they are let go of, beyond what was measured of it:
/// in the stage that lets go of most.
std::map<OperatorId, int64_t> let_go(const ValueLives& lives, const StageParts& unit) {
  std::map<OperatorId, int64_t> bytes;
  for (const auto& [kept, op] : unit.first_keepers(0)) {
    if (!unit.comes_in(kept, 0)) continue;
    int64_t most = 0;  // as it may have been given to the stage
    for (ValueId value = kept; value >= 0; value = lives.source(value))
      most = std::max(most, lives.bytes(value));
    const ValueId whole = lives.root(kept);
    const bool measured = lives.producer(whole) >= 0 && lives.first_keeper(whole) == op;
    bytes[op] += most - (measured ? lives.bytes(whole) : 0);
  }
  return bytes;
}

/// By how much more is held where the unit's forward has run again, and what it was given for that
/// is let go of.
int64_t made_again(const ValueLives& lives, const StageParts& unit) {
  int64_t bytes = 0;
  for (const OperatorId op : unit[0].operators) bytes += lives.own_bytes(op);
  for (const auto& [kept, op] : unit.first_keepers(0))
    if (unit.inside(lives.producer(kept), 0)) bytes += lives.bytes(kept);
  for (const ValueId read : unit.reads_of(0)) bytes -= lives.bytes(read);
  return bytes;
}

TurnBytes turn_of(const ValueLives& lives, const MicrobatchCosts& measured,
                  const StageParts& unit) {
  const std::map<OperatorId, int64_t> freed = let_go(lives, unit);
  const int64_t again = made_again(lives, unit);
  int64_t level = std::min<int64_t>(0, again);
  for (const auto& [value, gradient] : unit.sent())
    if (gradient) level += lives.bytes(value);
  int64_t most = level;
  const auto& operators = unit[0].operators;
  for (auto op = operators.rbegin(); op != operators.rend(); ++op) {
    const MemoryChange& change = measured.operators[static_cast<size_t>(*op)].held.backward;
    most = std::max(most, level + change.peak);
    level += change.net;
    if (const auto after = freed.find(*op); after != freed.end()) level -= after->second;
  }
  return {std::max<int64_t>(most, 0), std::max<int64_t>(again, 0)};
}

}  // namespace

std::vector<TurnBytes> turn_bytes(const ValueLives& lives, const MicrobatchCosts& measured,
                                  const Slicing& units) {
  std::vector<TurnBytes> turns;
  for (size_t unit = 0; unit < units.stages.size(); ++unit) {
    turns.emplace_back();
    if (units.stages[unit].operators.empty()) continue;  // others compute what they need of it
    turns.back() = turn_of(lives, measured, StageParts(lives, units, static_cast<int>(unit)));
  }
  return turns;
}

}  // namespace penstock
