// The discrete-event engine: runs a program against costs and links.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/program/program.hpp"
#include "pipeline/program/timeline.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/engine/memory.hpp"
#include "simulator/network/network.hpp"

namespace penstock {

struct Simulation {
  Timeline timeline;                 // empty unless asked for
  std::vector<MemorySample> memory;  // empty unless asked for
  double makespan_s = 0;
  double bubble = 0;           // 1 - busy / (ranks x makespan)
  std::vector<double> busy_s;  // compute per rank, as long as it takes on cores that are shared
  std::vector<double> rank_start_s, rank_end_s;  // first and last compute of each rank
  std::vector<int> peak_activations;             // per rank, in microbatches x stages held
  std::vector<int64_t> peak_memory_bytes;        // per rank
  std::vector<MemoryParts> peak_memory;          // per rank, what these are made of
  int64_t actions = 0;
};

struct SimulationOptions {
  bool timeline = true;
  bool memory = true;
  const Program* delayed = nullptr;                // by delay_receives, where that is known
  const std::vector<RankMemory>* peaks = nullptr;  // of each rank, where they are known
};

/// Runs a lowered program. Ranks execute their actions in order; a RECV only posts, and the F, B or
/// I that needs its message waits for it. A channel (sending rank, receiving rank, direction)
/// carries one transfer at a time, in order. Deterministic: times do not depend on the order in
/// which ranks are looked at (engine.hpp), and the timeline's ties go by rank and program order. In
/// it a SEND lasts while its bytes move, a RECV while its rank waits for them. Throws InputError
/// for a program that cannot finish, naming each waiting rank and what it waits for.
Simulation simulate(const Program& lowered, const Costs& costs, const Network& network,
                    const SimulationOptions& options = {});

/// The same for a program of compute actions alone that check_compute accepts, lowered along
/// `flows`; without timeline and memory samples, and where sends make nobody wait, it is run as it
/// is (direct.hpp), and its memory is without messages between ranks.
Simulation simulate_compute(const Program& compute, const std::vector<Flow>& flows,
                            const Costs& costs, const Network& network,
                            const SimulationOptions& options = {});

}  // namespace penstock
