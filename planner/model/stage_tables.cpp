#include "planner/model/stage_tables.hpp"

namespace penstock {

SharingWays StageTables::ways(int64_t state_parts) const {
  SharingWays ways = ways_;
  ways.state_parts = state_parts;
  return ways;
}

std::shared_ptr<const StageTable> StageTables::of(const MicrobatchCosts& measured,
                                                  int64_t state_parts) {
  std::unique_lock lock(mutex_);
  Table& table = tables_[{measured.microbatch, state_parts}];
  lock.unlock();
  std::call_once(table.once, [&] {
    table.made = std::make_shared<const StageTable>(
        chain_.bytes(profile_, measured, units_, ways(state_parts)));
  });
  return table.made;
}

StageBytes StageTables::kept_by_whole(const MicrobatchCosts& measured) const {
  StageTable first(chain_.units(), 1);
  chain_.add_kept(profile_, measured, first);
  return first.at(0, chain_.units());
}

}  // namespace penstock
