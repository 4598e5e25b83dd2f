#include "simulator/memory/stage_memory.hpp"

#include <algorithm>
#include <map>

#include "simulator/memory/part_memory.hpp"
#include "simulator/memory/stage_parts.hpp"

namespace penstock {

namespace {

/// The three ways back.
struct Backwards {
  MemoryChange both, input, weight;
  void add(const Backwards& next) {
    both = both.then(next.both);
    input = input.then(next.input);
    weight = weight.then(next.weight);
  }
};

class StageWalk {
 public:
  StageWalk(const ValueLives& lives, const MicrobatchCosts& measured, const Slicing& slicing,
            int stage, int64_t target_bytes, const std::set<ValueId>& elsewhere)
      : lives_(lives),
        measured_(measured),
        slice_(slicing.stages[static_cast<size_t>(stage)]),
        target_bytes_(target_bytes),
        parts_(lives, slicing, stage),
        elsewhere_{elsewhere} {}

  StageMemory run();

 private:
  void walk_forward(StageMemory& stage) const;
  void walk_back(StageMemory& stage) const;

  /// 0 for what another stage of the rank holds.
  int64_t bytes_here(ValueId value) const {
    return elsewhere_.front().contains(value) ? 0 : lives_.bytes(value);
  }
  bool kept(size_t part, ValueId value) const {
    return !parts_[part].recomputed &&
           measured_parts_[part].kept.contains(parts_.root_in(value, part));
  }

  const ValueLives& lives_;
  const MicrobatchCosts& measured_;
  const StageSlice& slice_;
  const int64_t target_bytes_;
  const StageParts parts_;
  std::vector<PartMemory> measured_parts_;
  /// By part: values of which it holds all memory; and those that another stage or an earlier part
  /// holds as well.
  std::vector<std::set<ValueId>> held_by_, elsewhere_;
};

/// Parts hand values on, which stay until the last part has read them; here: to the end.
void StageWalk::walk_forward(StageMemory& stage) const {
  int64_t data_bytes = makes_loss(slice_) ? target_bytes_ : 0;
  stage.saved_bytes = data_bytes;
  for (const ValueId input : parts_.inputs()) data_bytes += lives_.bytes(input);
  MemoryChange all{data_bytes, data_bytes};
  for (size_t part = 0; part < parts_.size(); ++part) {
    const PartMemory& memory = measured_parts_[part];
    const bool recomputed = parts_[part].recomputed;
    const int64_t own_bytes = recomputed ? 0 : memory.forward.net;
    all = all.then({own_bytes, recomputed ? memory.alone_peak : memory.forward.peak});
    stage.saved_bytes += own_bytes;
    int64_t handed_bytes = 0;
    for (const auto& [value, gradient] : parts_.hands_on(part))
      if (lives_.strided(value) || !kept(part, value)) handed_bytes += lives_.bytes(value);
    all = all.then({handed_bytes, handed_bytes});
  }
  for (const ValueId value : stage.held) {
    const size_t maker = parts_.part_of(lives_.producer(value));
    if (maker == parts_.size() || !kept(maker, value)) stage.saved_bytes += bytes_here(value);
  }
  stage.forward_peak = std::max(all.peak, stage.saved_bytes - stage.received_bytes);
}

void StageWalk::walk_back(StageMemory& stage) const {
  Backwards all;
  for (size_t part = parts_.size(); part-- > 0;) {
    const PartMemory& memory = measured_parts_[part];
    Backwards own{memory.backward, memory.backward_input, memory.backward_weight};
    if (parts_[part].recomputed) {
      int64_t unneeded = 0;
      for (const ValueId value : held_by_[part])
        if (!memory.needed.contains(value) && !elsewhere_[part].contains(value))
          unneeded += lives_.bytes(value);
      const MemoryChange again = memory.forward.then({-unneeded, 0});
      const int64_t peak = all.both.peak;
      own.both = again.then(own.both);
      own.input = again.then(own.input);
      if (all.both.net + own.both.peak > peak) stage.remade_bytes = memory.forward.net;
    } else if (all.both.net + own.both.peak > all.both.peak) {
      stage.remade_bytes = 0;
    }
    int64_t returned_bytes = 0;  // by later parts
    for (const auto& [value, gradient] : parts_.hands_on(part))
      if (gradient && !parts_.sent().contains(value)) returned_bytes += lives_.bytes(value);
    all.add(own);
    all.add({{-returned_bytes, 0}, {-returned_bytes, 0}, {}});
  }
  stage.backward_peak = all.both.peak;
  stage.backward_input_peak = all.input.peak;
  stage.backward_weight_peak = all.weight.peak;
  int64_t sent_back = 0;
  for (const auto& [value, gradient] : parts_.received())
    if (gradient) sent_back += lives_.bytes(value);
  const int64_t data = makes_loss(slice_) ? target_bytes_ : 0;
  stage.saved_weight_bytes = stage.saved_bytes - data + all.input.net - sent_back;
}

StageMemory StageWalk::run() {
  StageMemory stage;
  for (const auto& [value, gradient] : parts_.received()) stage.received_bytes += bytes_here(value);
  for (const auto& [value, gradient] : parts_.sent())
    if (gradient) stage.given_bytes += lives_.bytes(value);
  for (size_t part = 0; part < parts_.size(); ++part) {
    const PartMemory& memory =
        measured_parts_.emplace_back(part_memory(parts_, part, measured_, elsewhere_[part]));
    auto& held =
        held_by_.emplace_back(parts_[part].recomputed ? parts_.reads_of(part) : memory.kept);
    if (!parts_[part].recomputed) held.insert(memory.needed.begin(), memory.needed.end());
    stage.held.insert(held.begin(), held.end());
    elsewhere_.emplace_back(elsewhere_[part]).insert(held.begin(), held.end());
  }
  for (const auto& [value, gradient] : parts_.sent()) {
    const bool held =
        stage.held.contains(parts_.root_in(value, parts_.part_of(lives_.producer(value))));
    stage.messages[value] = held && !lives_.strided(value) ? 0 : lives_.bytes(value);
  }
  walk_forward(stage);
  walk_back(stage);
  return stage;
}

}  // namespace

StageMemory stage_memory(const ValueLives& lives, const MicrobatchCosts& measured,
                         const Slicing& slicing, int stage, int64_t target_bytes,
                         const std::set<ValueId>& elsewhere) {
  return StageWalk(lives, measured, slicing, stage, target_bytes, elsewhere).run();
}

}  // namespace penstock
