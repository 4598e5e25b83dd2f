#include "planner/model/unit_bytes.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "simulator/memory/stage_memory.hpp"
#include "simulator/memory/stage_parts.hpp"

namespace penstock {

namespace {

class UnitMemory {
 public:
  UnitMemory(const ValueLives& lives, const MicrobatchCosts& measured, const Slicing& units)
      : lives_(lives), measured_(measured), units_(units) {
    for (size_t unit = 0; unit < units.stages.size(); ++unit) {
      parts_.emplace_back(lives, units, static_cast<int>(unit));
      for (const OperatorId op : operators(unit)) first_with_.try_emplace(op, unit);
    }
  }

  std::vector<UnitBytes> run() {
    bytes_.assign(parts_.size(), {});
    for (size_t unit = 0; unit < parts_.size(); ++unit)
      for (const OperatorId op : operators(unit)) add(unit, op);
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
  /// The bytes of some memory that each unit needs, perhaps of a view.
  using ByUnit = std::map<size_t, int64_t>;

  void add(size_t unit, OperatorId op) {
    const int64_t own = lives_.own_bytes(op);
    bytes_[unit].alone += own;
    bytes_[unit].at_once += own;
    bytes_[unit].in_part += std::max<int64_t>(own, 0);
    for (const ValueId read : lives_.reads(op)) {
      const ValueId value = parts_[unit].root_in(read, 0);
      note(readers_, lives_.root(value), unit, value);
    }
    for (const ValueId needed : lives_.kept_by(op)) {
      const ValueId kept = lives_.kept_as(needed, op, [](OperatorId) { return true; });
      note(keepers_, lives_.root(kept), unit, parts_[unit].kept_in(needed, op, 0));
    }
  }

  /// Tensors and constants are not of a microbatch.
  void note(std::map<ValueId, ByUnit>& of, ValueId root, size_t unit, ValueId value) const {
    if (!makes(unit, value) && !parts_[unit].comes_in(value, 0)) return;
    int64_t& as = of[root][unit];
    as = std::max(as, lives_.bytes(value));
  }

  /// Where others need but a view of what a unit makes, that view is handed on to them when either
  /// recomputes.
  void free(ValueId root, const ByUnit& keepers) {
    if (lives_.producer(root) < 0) return;  // given to every stage
    const int64_t all = lives_.bytes(root);
    int64_t handed_on = 0;
    for (const auto& [unit, as] : keepers) {
      bytes_[unit].alone += makes(unit, root) ? all : std::max<int64_t>(all - as, 0);
      if (makes(unit, root)) bytes_[unit].at_once += all;
      bytes_[unit].in_part += std::max(all, as);
      handed_on = std::max(handed_on, as);
    }
    const size_t maker = first_with_.at(lives_.producer(root));
    if (keepers.contains(maker)) return;
    bytes_[maker].alone += std::max<int64_t>(all - handed_on, 0);
    bytes_[maker].at_once += all;
    bytes_[maker].in_part += all;
  }

  /// A value that no backward needs is held where the one unit that reads it recomputes.
  void hold(ValueId root, const ByUnit& readers) {
    const auto is_given = [&](const auto& reader) { return !makes(reader.first, root); };
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
        if (!makes(unit, root)) bytes_[unit].for_weight -= as;
    }
    for (size_t unit = 0; unit < bytes_.size(); ++unit)
      for (const auto& [value, gradient] : parts_[unit].sent())
        if (gradient) bytes_[unit].for_weight -= lives_.bytes(value);
  }

  const std::vector<OperatorId>& operators(size_t unit) const {
    return units_.stages[unit].operators;
  }
  bool makes(size_t unit, ValueId value) const {
    return parts_[unit].inside(lives_.producer(value), 0);
  }

  const ValueLives& lives_;
  const MicrobatchCosts& measured_;
  const Slicing& units_;
  std::vector<StageParts> parts_;                // each unit as a stage, of one part
  std::map<OperatorId, size_t> first_with_;      // the first unit that has it
  std::map<ValueId, ByUnit> readers_, keepers_;  // by the value that the memory is named by
  std::vector<UnitBytes> bytes_;
};

}  // namespace

std::vector<UnitBytes> unit_bytes(const ValueLives& lives, const MicrobatchCosts& measured,
                                  const Slicing& units) {
  return UnitMemory(lives, measured, units).run();
}

}  // namespace penstock
