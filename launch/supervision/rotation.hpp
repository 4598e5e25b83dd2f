// Decides which slot a rank's next snapshot takes, and which checkpoint is written next: pure
// functions of what lies in the slots.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "launch/progress.hpp"

namespace penstock {

/// The slot that has the snapshot before that step.
std::optional<size_t> slot_with(const SlotSteps& steps, int64_t next_step);

/// The slot that the next snapshot overwrites: the latest but the newest, which is what a run would
/// go on with; none that is to be saved. Nothing where that leaves none: until one is saved.
std::optional<size_t> slot_for_next(const RankSlots& slots);

/// The slots whose memory nobody needs while `next` is written.
std::vector<size_t> idle_slots(const RankSlots& slots, size_t next);

/// The earliest step before which a checkpoint is to be written, once all ranks have come so far.
std::optional<int64_t> step_to_save(const std::vector<RankSlots>& ranks);

}  // namespace penstock
