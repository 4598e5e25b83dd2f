#include "planner/model/turn_bytes.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace penstock {

namespace {

/// The end of a stage's backward. What may be let go of earlier or later is let go of as early as
/// it can be in any stage that ends so.
class Turn {
 public:
  Turn(const ValueLives& lives, const MicrobatchCosts& measured, const Slicing& units, size_t unit)
      : lives_(lives),
        measured_(measured),
        operators_(units.stages[unit].operators),
        inside_(operators_.begin(), operators_.end()),
        comes_in_(units.stages[unit].user_inputs.begin(), units.stages[unit].user_inputs.end()) {
    std::set<ValueId> sent;
    for (const StageEdge& edge : units.edges) {
      for (const auto& [value, gradient] : edge.values) {
        if (edge.consumer == static_cast<int>(unit)) comes_in_.insert(value);
        if (edge.producer == static_cast<int>(unit) && gradient) sent.insert(value);
      }
    }
    for (const ValueId value : sent) gradient_bytes_ += lives_.bytes(value);
    for (const OperatorId op : operators_) keep(op);
  }

  TurnBytes bytes() const {
    const int64_t again = made_again();
    int64_t level = gradient_bytes_ + std::min<int64_t>(0, again), most = level;
    for (auto op = operators_.rbegin(); op != operators_.rend(); ++op) {
      const MemoryChange& change = measured_.operators[static_cast<size_t>(*op)].held.backward;
      most = std::max(most, level + change.peak);
      level += change.net;
      const auto freed = let_go_.find(*op);
      if (freed != let_go_.end()) level -= freed->second;
    }
    return {std::max<int64_t>(most, 0), std::max<int64_t>(again, 0)};
  }

 private:
  bool makes(OperatorId op) const { return inside_.contains(op); }

  void keep(OperatorId op) {
    const auto inside = [&](OperatorId other) { return makes(other); };
    for (const ValueId needed : lives_.kept_by(op)) {
      const ValueId kept = lives_.kept_as(needed, op, inside), whole = lives_.root(kept);
      if (!kept_.insert(kept).second) continue;
      if (makes(lives_.producer(kept))) {
        kept_bytes_ += lives_.bytes(kept);
        continue;
      }
      if (!comes_in_.contains(kept)) continue;
      const bool measured = lives_.producer(whole) >= 0 && lives_.first_keeper(whole) == op;
      int64_t most = 0;  // as it may have been given to the stage
      for (ValueId value = kept; value >= 0; value = lives_.source(value))
        most = std::max(most, lives_.bytes(value));
      let_go_[op] += most - (measured ? lives_.bytes(whole) : 0);
    }
  }

  /// By how much more is held where the unit's forward has run again, and what it was given for
  /// that is let go of.
  int64_t made_again() const {
    int64_t bytes = kept_bytes_;
    std::set<ValueId> read;
    const auto inside = [&](OperatorId other) { return makes(other); };
    for (const OperatorId op : operators_) {
      bytes += lives_.own_bytes(op);
      for (const ValueId value : lives_.reads(op)) {
        const ValueId given = lives_.named_by(value, inside);
        if (comes_in_.contains(given) && read.insert(given).second) bytes -= lives_.bytes(given);
      }
    }
    return bytes;
  }

  const ValueLives& lives_;
  const MicrobatchCosts& measured_;
  const std::vector<OperatorId>& operators_;
  const std::set<OperatorId> inside_;
  std::set<ValueId> comes_in_, kept_;
  std::map<OperatorId, int64_t> let_go_;  // when its backward has run
  int64_t gradient_bytes_ = 0;            // of gradients that it is given
  int64_t kept_bytes_ = 0;                // of what it makes
};

}  // namespace

std::vector<TurnBytes> turn_bytes(const ValueLives& lives, const MicrobatchCosts& measured,
                                  const Slicing& units) {
  std::vector<TurnBytes> bytes;
  for (size_t unit = 0; unit < units.stages.size(); ++unit)
    bytes.push_back(Turn(lives, measured, units, unit).bytes());
  return bytes;
}

}  // namespace penstock
