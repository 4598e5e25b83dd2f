// A program: for each rank the list of actions in order. Generators make it, the simulator runs it
// against costs, the executor runs it against tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/program/action.hpp"

namespace penstock {

/// The most ranks that a program, a plan, a trace or a cluster may have.
inline constexpr int64_t max_ranks = 1 << 20;

struct Program {
  std::vector<std::vector<Action>> ranks;
  std::vector<int> rank_of_stage;
  int microbatches = 0;

  int rank_count() const { return static_cast<int>(ranks.size()); }
  int stage_count() const { return static_cast<int>(rank_of_stage.size()); }
  int64_t action_count() const;  // of all ranks
};

/// The program without transfers, REDUCE_GRAD and OPT.
Program compute_only(Program program);

/// A row per rank, cells separated by commas, no header; an empty cell is an idle slot (dropped).
std::string to_csv(const Program& program);
/// Ranks of stages follow from the rows; what concerns torch alone (torch_csv.hpp) is dropped.
/// Throws InputError with file and row.
Program parse_csv(std::string_view text, std::string_view place);

}  // namespace penstock
