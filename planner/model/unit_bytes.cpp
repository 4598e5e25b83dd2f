#include "planner/model/unit_bytes.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace penstock {

namespace {

class Counting {
 public:
  Counting(const ValueLives& lives, const Slicing& units) : lives_(lives) {
    for (const StageSlice& unit : units.stages)
      operators_.emplace_back(unit.operators.begin(), unit.operators.end());
    for (const StageSlice& unit : units.stages)
      user_inputs_.insert(unit.user_inputs.begin(), unit.user_inputs.end());
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
    for (const ValueId read : lives_.reads(op))
      note(readers_, lives_.root(read), unit, lives_.bytes(lives_.named_by(read, inside)));
    for (const ValueId needed : lives_.kept_by(op)) {
      const ValueId kept = lives_.kept_as(needed, op, [](OperatorId) { return true; });
      note(keepers_, lives_.root(kept), unit, lives_.bytes(lives_.kept_as(needed, op, inside)));
    }
  }

  /// But of tensors.
  void note(std::map<ValueId, ByUnit>& of, ValueId root, size_t unit, int64_t bytes) const {
    if (lives_.producer(root) < 0 && !user_inputs_.contains(root)) return;
    int64_t& as = of[root][unit];
    as = std::max(as, bytes);
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

  const ValueLives& lives_;
  std::vector<std::set<OperatorId>> operators_;  // of each unit
  std::map<OperatorId, size_t> first_with_;      // the first unit that has it
  std::set<ValueId> user_inputs_;
  std::map<ValueId, ByUnit> readers_, keepers_;  // by the value that the memory is named by
  std::vector<UnitBytes> bytes_;
};

}  // namespace

std::vector<UnitBytes> unit_bytes(const ValueLives& lives, const Slicing& units) {
  return Counting(lives, units).run();
}

}  // namespace penstock
