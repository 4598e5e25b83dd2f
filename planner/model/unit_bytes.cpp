#include "planner/model/unit_bytes.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "simulator/memory/stage_memory.hpp"

namespace penstock {

namespace {

class Counting {
 public:
  Counting(const ValueLives& lives, const MicrobatchCosts& measured, const Slicing& units)
      : lives_(lives), measured_(measured), units_(units) {
    for (const StageSlice& unit : units.stages)
      operators_.emplace_back(unit.operators.begin(), unit.operators.end());
    for (const StageSlice& unit : units.stages)
      comes_in_.emplace_back(unit.user_inputs.begin(), unit.user_inputs.end());
    for (const StageEdge& edge : units.edges)
      for (const Crossing& crossing : edge.values)
        comes_in_[static_cast<size_t>(edge.consumer)].insert(crossing.value);
    for (size_t unit = operators_.size(); unit-- > 0;)
      for (const OperatorId op : operators_[unit]) first_with_[op] = unit;
  }

  std::vector<UnitBytes> run() {
    bytes_.assign(operators_.size(), {});
    for (size_t unit = 0; unit < operators_.size(); ++unit)
      for (const OperatorId op : operators_[unit]) add(unit, op);
    for (const auto& [root, keepers] : keepers_) free(root, keepers);
    for (const auto& [root, readers] : readers_)
      if (!keepers_.contains(root)) hold(root, readers);
    if (measured_.knows_split_backward()) keep_for_weight();
    for (UnitBytes& unit : bytes_) {
      unit.alone = std::max<int64_t>(unit.alone, 0);
      unit.at_once = std::max<int64_t>(unit.at_once, 0);
    }
    return std::move(bytes_);
  }

 private:
  /// By unit, the bytes of what it needs of some memory: of a view perhaps.
  using ByUnit = std::map<size_t, int64_t>;

  void add(size_t unit, OperatorId op) {
    const int64_t own = lives_.own_bytes(op);
    bytes_[unit].alone += own;
    bytes_[unit].at_once += own;
    bytes_[unit].in_part += std::max<int64_t>(own, 0);
    const auto inside = [&](OperatorId other) { return operators_[unit].contains(other); };
    for (const ValueId read : lives_.reads(op)) {
      const ValueId value = lives_.named_by(read, inside);
      note(readers_, lives_.root(value), unit, value);
    }
    for (const ValueId needed : lives_.kept_by(op)) {
      const ValueId kept = lives_.kept_as(needed, op, [](OperatorId) { return true; });
      note(keepers_, lives_.root(kept), unit, lives_.kept_as(needed, op, inside));
    }
  }

  /// But of tensors and constants.
  void note(std::map<ValueId, ByUnit>& of, ValueId root, size_t unit, ValueId value) const {
    const bool made = operators_[unit].contains(lives_.producer(value));
    if (!made && !comes_in_[unit].contains(value)) return;
    int64_t& as = of[root][unit];
    as = std::max(as, lives_.bytes(value));
  }

  /// Where others need but a view of what a unit makes, that view is handed on to them when either
  /// recomputes.
  void free(ValueId root, const ByUnit& keepers) {
    const OperatorId producer = lives_.producer(root);
    if (producer < 0) return;  // given to every stage
    const int64_t all = lives_.bytes(root);
    int64_t handed_on = 0;
    for (const auto& [unit, as] : keepers) {
      const bool makes = operators_[unit].contains(producer);
      bytes_[unit].alone += makes ? all : std::max<int64_t>(all - as, 0);
      if (makes) bytes_[unit].at_once += all;
      bytes_[unit].in_part += std::max(all, as);
      handed_on = std::max(handed_on, as);
    }
    const size_t maker = first_with_.at(producer);
    if (keepers.contains(maker)) return;
    bytes_[maker].alone += std::max<int64_t>(all - handed_on, 0);
    bytes_[maker].at_once += all;
    bytes_[maker].in_part += all;
  }

  /// What no backward needs is held where the one unit that reads it recomputes.
  void hold(ValueId root, const ByUnit& readers) {
    const auto is_given = [&](const auto& reader) {
      return !operators_[reader.first].contains(lives_.producer(root));
    };
    if (std::ranges::count_if(readers, is_given) != 1) return;
    const auto& [unit, as] = *std::ranges::find_if(readers, is_given);
    bytes_[unit].alone -= as;
  }

  /// As a stage of its own, but for what another unit of its stage may keep as well.
  void keep_for_weight() {
    for (size_t unit = 0; unit < bytes_.size(); ++unit)
      bytes_[unit].for_weight =
          stage_memory(lives_, measured_, units_, static_cast<int>(unit), 0).saved_weight_bytes;
    for (const auto& [root, keepers] : keepers_) {
      for (const auto& [unit, as] : keepers)
        if (!operators_[unit].contains(lives_.producer(root))) bytes_[unit].for_weight -= as;
    }
    std::set<std::pair<int, ValueId>> gradients;
    for (const StageEdge& edge : units_.edges) {
      for (const auto& [value, gradient] : edge.values)
        if (gradient && gradients.emplace(edge.producer, value).second)
          bytes_[static_cast<size_t>(edge.producer)].for_weight -= lives_.bytes(value);
    }
  }

  const ValueLives& lives_;
  const MicrobatchCosts& measured_;
  const Slicing& units_;
  std::vector<std::set<OperatorId>> operators_;  // of each unit
  std::vector<std::set<ValueId>> comes_in_;      // likewise: from outside
  std::map<OperatorId, size_t> first_with_;      // the first unit that has it
  std::map<ValueId, ByUnit> readers_, keepers_;  // by the value that the memory is named by
  std::vector<UnitBytes> bytes_;
};

}  // namespace

std::vector<UnitBytes> unit_bytes(const ValueLives& lives, const MicrobatchCosts& measured,
                                  const Slicing& units) {
  return Counting(lives, measured, units).run();
}

}  // namespace penstock
