// Small random chains of units, and the real simulator on their splits: what the bounds and the
// search are held against. Deterministic: every case follows from its seed.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "pipeline/program/program.hpp"
#include "planner/bounds/chain_bound.hpp"
#include "planner/model/rank_speeds.hpp"
#include "planner/splits/placed_space.hpp"
#include "simulator/engine/simulate.hpp"

namespace penstock::test {

/// A chain of units, the link its transfers go over, and what its units hold.
struct Chain {
  ChainCosts costs;
  Link link;
  std::vector<int64_t> forward_bytes, backward_bytes;  // over each cut
  std::vector<char> forward_linked, backward_linked;   // does anything cross it, does a gradient
  std::vector<int64_t> fixed_bytes, saved_bytes;       // per unit
  std::vector<double> input_s, weight_s;               // per unit: B in two parts
  // Per unit: what hosts take to issue it; empty where they are never behind.
  std::vector<double> forward_host_s, backward_host_s, input_host_s, weight_host_s;
};

/// How unlike each other the units are, and what beside F and B costs time.
struct ChainKind {
  int units = 6;
  bool equal = false;         // all units cost the same
  bool coarse = false;        // costs of 1 or 2 ms, transfers of 0 to 2 ms, no memory: many ties
  bool extras = true;         // first microbatch, optimizer, overheads, compute of transfers
  bool breaks = false;        // some cuts are crossed by nothing, or by no gradient
  bool hosts = false;         // issue what devices run, some more slowly
  double transfer_scale = 1;  // of a transfer to a forward
};

Chain random_chain(uint64_t seed, const ChainKind& kind);

/// All splits of `units` into exactly `ranks` stages, ascending.
std::vector<std::vector<int>> all_splits(int units, int ranks);

/// Costs of the stages of a split: what plan_costs does for a plan whose schedule runs backwards
/// whole, or in two parts.
Costs stage_costs(const Chain& chain, const std::vector<int>& begins, bool split = false);

/// The schedule's compute program. Throws InputError for a shape that it does not run.
Program compute_program(const std::string& schedule, int ranks, int microbatches,
                        int stages_per_rank = 1);

struct Shape {
  std::string schedule;
  int ranks, stages_per_rank, microbatches;
  std::vector<double> speeds = {};           // of the ranks' devices, at most 1
  std::vector<int64_t> reserved_bytes = {};  // bytes that they have reserved_bytes than the largest
};
/// Shapes for all schedules on up to three ranks of so many units; a schedule may refuse its own.
std::vector<Shape> shapes(int units, int microbatches);

/// Three to six units of whatever kind the seed says.
Chain small_chain(uint64_t seed, bool breaks = false);

/// Bytes of every stage of the chain.
std::shared_ptr<const StageTable> bytes_of(const Chain& chain);

/// The chain's costs where backwards are in two parts, or each as it likes.
ChainCosts split_costs(const Chain& chain, bool either);
/// … and as the schedule runs them.
ChainCosts schedule_costs(const Chain& chain, const std::string& schedule);

/// The splits of a program's layout, bounded without knowing the order of actions.
/// Hosts are left out where the chain has them.
PlacedSpace placed_space(const Chain& chain, const std::string& schedule, const Program& compute,
                         const std::vector<double>& speeds = {},
                         std::vector<int64_t> reserved_bytes = {});

/// The same with the hosts.
std::unique_ptr<const SplitSpace> split_space(const Chain& chain, const std::string& schedule,
                                              const Program& compute,
                                              const std::vector<double>& speeds = {},
                                              std::vector<int64_t> reserved_bytes = {});

/// Speeds of ranks, some of them equal.
std::vector<double> random_speeds(std::mt19937_64& random, int ranks);

/// Ranks of the same speed.
RankSpeeds equal_ranks(int ranks);

/// Lowers a compute program along a split and simulates it, on ranks of these speeds, which take
/// turns on so many cores (0: each has its own).
Simulation simulate_program(const Chain& chain, const std::vector<int>& begins,
                            const Program& compute, const std::vector<double>& speeds = {},
                            int cores = 0);
/// Simulates the program that `adaptive` makes of stages placed so.
Simulation simulate_adaptive(const Chain& chain, const std::vector<int>& begins,
                             const Placement& placement, const std::vector<double>& speeds = {});
/// The same for a schedule.
Simulation simulate_split(const Chain& chain, const std::vector<int>& begins,
                          const std::string& schedule, int microbatches);

/// The bound for a schedule on that chain.
ChainBound bound_of(const Chain& chain, const std::string& schedule, int ranks, int microbatches);

/// Rounding of sums: bounds and simulations add the same positive numbers in another order, at most
/// a few thousand of them, each addition off by 2^-53 relative.
constexpr double rounding = 1e-12;

}  // namespace penstock::test
