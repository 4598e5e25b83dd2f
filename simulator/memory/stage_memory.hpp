// The memory of a stage for one microbatch, from what was measured of its operators where the whole
// model is one stage.
//
// Operators run one after the other, F forwards and B, I, W backwards, and so do the bytes that
// they add and take (MemoryChange::then). What differs from the whole model are the values that
// cross the ends of a stage:
//
//   received   stays to the end of F, and beyond only where the stage's own backward needs it: then
//              until the first operator of the stage that needs it has gone back
//   sent       stays after F only where the stage's own backward needs it
//   gradient   of a sent value stays to the end of the backward; that of a received value is the
//              stage's own, where the whole model adds to what later stages made
//
// A stage that recomputes is a row of parts, each of which hands values to the next ones as stages
// do (activation checkpointing; T. Chen et al., Training Deep Nets with Sublinear Memory Cost,
// 2016). A recomputed one keeps what it was given, and its backward runs its forward again first.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/memory/value_lives.hpp"

namespace penstock {

/// Bytes of one microbatch. Peaks are counted from where the action starts; what the stage received
/// is there by then and not part of them.
struct StageMemory {
  int64_t received_bytes = 0;      // from other stages
  int64_t given_bytes = 0;         // gradients of what it sends, from other stages
  int64_t saved_bytes = 0;         // between F and B or I
  int64_t saved_weight_bytes = 0;  // between I and W
  int64_t forward_peak = 0, backward_peak = 0, backward_input_peak = 0, backward_weight_peak = 0;
  int64_t remade_bytes = 0;             // of the backward's peak: what a forward made again
  std::set<ValueId> held;               // values of which the stage has all memory between F and B
  std::map<ValueId, int64_t> messages;  // of each sent value the bytes that are not held anyway
};

/// The memory of a stage of `slicing`, which may have recomputed segments. `target_bytes`: of the
/// loss's target, where the stage makes the loss. `elsewhere`: values that a stage of the same rank
/// holds longer than this one.
StageMemory stage_memory(const ValueLives& lives, const MicrobatchCosts& measured,
                         const Slicing& slicing, int stage, int64_t target_bytes,
                         const std::set<ValueId>& elsewhere = {});

}  // namespace penstock
