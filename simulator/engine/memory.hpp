// Memory of each rank along its program: what stages hold all the time, what is held for a stage
// and microbatch, and the transient of the running action.
//
//   F        + saved_bytes at its start; transient_forward while it runs
//   B        - saved_bytes at its end;   transient_backward while it runs
//   I        - saved_bytes + saved_weight_bytes at its end; transient_input while it runs
//   W        - saved_weight_bytes at its end;               transient_weight while it runs
//   REDUCE_GRAD, OPT                     transient_reduce, transient_optimizer while it runs
//
// Messages, as the executor keeps them (backend/executor/exchange.hpp): a receive's memory is there
// from when it is posted, receive_depth ahead of each channel, to the start of the F, B or I that
// takes it, whose transient then has it. What is sent stays from the end of the action that made it
// until this rank receives something that its peer sent after it took it, or to the step's end;
// between two stages of one rank, until the other takes it.
//
// A stage without any backward in the program (inference) lets go at the end of F. The parts of an
// OVERLAP_F_B run one after the other: first its forward, then its backward.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/program/program.hpp"
#include "pipeline/program/timeline.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/engine/engine.hpp"

namespace penstock {

/// Bytes held at a moment, by what they are.
struct MemoryParts {
  int64_t fixed_bytes = 0;         // parameters, gradients, optimizer state, buffers, constants
  int64_t snapshot_bytes = 0;      // copies of what training changes, of a run that survives
  int64_t message_bytes = 0;       // posted ahead, received, or on their way
  int64_t saved_bytes = 0;         // activations: what F saved for B or I
  int64_t saved_weight_bytes = 0;  // what I kept for W
  int64_t recomputed_bytes = 0;    // activations that the running backward made again
  int64_t transient_bytes = 0;     // the rest of what the running action needs for itself

  int64_t total() const {
    return fixed_bytes + snapshot_bytes + message_bytes + saved_bytes + saved_weight_bytes +
           recomputed_bytes + transient_bytes;
  }
  bool operator==(const MemoryParts&) const = default;
};

struct RankMemory {
  int64_t peak_bytes = 0;
  MemoryParts peak;   // when the peak is first reached; its total is peak_bytes
  int64_t begun = 0;  // actions by then, those of overlaps each
  int peak_activations =
      0;  // (stage, microbatch) held at once: from the start of F to the end of B or W
  std::vector<MemorySample> samples;  // ascending in time; empty without times
};

/// The peaks of one rank, of a program whose RECVs wait until they are needed (delay_receives)
/// unless messages take no memory.
RankMemory memory_of_rank(const Program& delayed, int rank, const Costs& costs);

/// By stage, the microbatches from the start of F to the end of B or I when that peak is reached.
std::vector<int> held_at_peak(const Program& delayed, int rank, const RankMemory& memory);

/// The memory of all ranks. Peaks follow from the order of their actions alone; samples also need
/// `times`, as recorded by the engine, and the program that it ran, both of which may be null.
/// Where messages take memory, RECVs wait until they are needed, as in the executor
/// (delay_receives, which `delayed` may give).
std::vector<RankMemory> memory_of_ranks(const Program& program, const Costs& costs,
                                        const CompiledProgram* compiled = nullptr,
                                        const EngineResult* times = nullptr,
                                        const Program* delayed = nullptr);

}  // namespace penstock
