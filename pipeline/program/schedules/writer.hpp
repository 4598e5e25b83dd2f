// Writes one rank's compute actions and counts microbatches per stage, so that a generator says
// only which stage comes next.
#pragma once

#include <vector>

#include "pipeline/program/program.hpp"

namespace penstock {

/// Each call appends the next microbatch of that stage and kind. What lies past the last microbatch
/// is dropped, so that a generator can write whole phases.
class RankWriter {
 public:
  /// The program's stages and microbatches are known; it outlives the writer.
  RankWriter(Program& program, int rank);

  void forward(int stage);
  void backward(int stage);
  void backward_input(int stage);
  /// The oldest W of this stage.
  void backward_weight(int stage);
  /// The oldest W of any stage whose I stands here already; nothing where there is none.
  void oldest_backward_weight();
  /// A forward and a whole backward with their transfers overlapped.
  void overlap(int forward_stage, int backward_stage);
  /// Any other action.
  void append(const Action& action);

  /// Forwards of the stage so far, dropped ones included.
  int forwards(int stage) const { return counts_[static_cast<size_t>(stage)].forward; }

 private:
  struct Counts {
    int forward = 0, backward = 0, weight = 0;
  };

  int microbatches_;
  std::vector<Action>& actions_;
  std::vector<Counts> counts_;  // by stage
  std::vector<int> pending_;    // stages of the Is that stand here, in order
  size_t next_pending_ = 0;
};

}  // namespace penstock
